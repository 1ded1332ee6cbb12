"""What starts a server may fail before it: container engines, Slurm, tmux."""

from __future__ import annotations

import pytest
from tests.launches.reading import LOGS

from sitrepd.launches.diagnosis import diagnose
from sitrepd.launches.launchers.base import Exit

_DOCKER = "docker: Error response from daemon: "
_CASES = [
    (
        "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?.",
        "missing_dependency", "No docker daemon answers", "systemctl start docker",
    ),
    (
        "Cannot connect to Podman. Please verify your connection to the Linux system using `podman system connection`",
        "missing_dependency", "No podman daemon answers", "podman.socket",
    ),
    (
        "docker: permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
        "missing_dependency", "may not speak to the docker daemon", "usermod -aG docker",
    ),
    (
        f'{_DOCKER}could not select device driver "" with capabilities: [[gpu]].',
        "driver", "cannot hand the GPUs to the container", "nvidia-container-toolkit",
    ),
    (
        "Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all",
        "driver", "cannot hand the GPUs to the container", "nvidia-ctk cdi generate",
    ),
    (
        "Unable to find image 'me/mine:latest' locally\n"
        f"{_DOCKER}pull access denied for me/mine, repository does not exist or may require 'docker login'",
        "missing_dependency", "image cannot be had: me/mine", "docker pull me/mine",
    ),
    (
        f"{_DOCKER}manifest for lmsysorg/sglang:v9 not found: manifest unknown: manifest unknown.",
        "missing_dependency", "image cannot be had: lmsysorg/sglang:v9", "docker login",
    ),
    (
        'Error: short-name "lmsysorg/sglang" did not resolve to an alias',
        "missing_dependency", "image cannot be had: lmsysorg/sglang", "podman pull lmsysorg/sglang",
    ),
    (
        f'{_DOCKER}Get "https://registry.example/v2/": dial tcp: lookup registry.example: no such host',
        "missing_dependency", "its registry does not answer", "docker load -i",
    ),
    (
        f"{_DOCKER}driver failed programming external connectivity: Bind for 0.0.0.0:30000 failed: port is already "
        "allocated.",
        "port_in_use", "The port 30000 that the container is to publish is taken", "-p OTHER:PORT",
    ),
    (
        f'{_DOCKER}Conflict. The container name "/sgl" is already in use by container "6a3e3b7ac0b3".',
        "bad_flag", "A container of the name sgl exists already", "docker rm sgl",
    ),
    (
        "unknown flag: --gpuz\nSee 'docker run --help'.",
        "bad_flag", "rejected its command line: unknown flag: --gpuz", "before the image",
    ),
    (
        f'{_DOCKER}failed to create task: OCI runtime create failed: exec: "python4": executable file not found in $PATH',
        "missing_dependency", "python4", "python4",
    ),
    (
        "srun: error: Unable to allocate resources: Invalid partition name specified",
        "bad_flag", "Slurm gave no resources: Invalid partition name specified", "sinfo",
    ),
    ("duplicate session: sgl", "bad_flag", "tmux has a session sgl already", "tmux kill-session -t sgl"),
]  # fmt: skip


@pytest.mark.parametrize(("log", "category", "summary", "fix"), _CASES)
def test_what_failed_before_the_server(log: str, category: str, summary: str, fix: str) -> None:
    for ended in (None, Exit(known=True, exit_code=125)):
        told = diagnose(log.splitlines(), exit=ended)
        assert told.category == category
        assert summary in told.summary
        assert fix in (told.fix or "")


def test_an_image_that_is_fetched_first_is_no_failure() -> None:
    start = (LOGS / "h200-0.5.16-eagle3-s2.log").read_text().splitlines()
    told = diagnose(["Unable to find image 'lmsysorg/sglang:latest' locally", "latest: Pulling from x", *start])
    assert told.category is None
