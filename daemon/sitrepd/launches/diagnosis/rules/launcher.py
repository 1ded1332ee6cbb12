"""What starts the server and fails before it: container engines, Slurm, terminal multiplexers."""

from __future__ import annotations

from sitrepd.launches.diagnosis.case import Case, Rule
from sitrepd.launches.diagnosis.rules._make import rule


def _tool(case: Case) -> str:
    return "podman" if "podman" in case.text or case.text.startswith("Error: ") else "docker"


def _image(case: Case) -> str:
    return case.word("image") or "the image"


_NOT_STARTED = "It failed before the server was started, so nothing of the engine has run."

RULES: tuple[Rule, ...] = (
    rule(
        "missing_dependency",
        r"Cannot connect to the Docker daemon|failed to connect to the docker API|error during connect: .*docker"
        r"|[Cc]annot connect to Podman|unable to connect to Podman socket",
        lambda case: f"No {_tool(case)} daemon answers, so no container was started",
        _NOT_STARTED,
        lambda case: (
            "podman info shows what is wrong; systemctl --user start podman.socket where a socket is used."
            if _tool(case) == "podman"
            else "systemctl start docker (or dockerd) on this machine; docker info shows whether it answers, and "
            "DOCKER_HOST or docker context ls where it is looked for."
        ),
        weight="fatal",
    ),
    rule(
        "missing_dependency",
        r"permission denied while trying to connect to the [Dd]ocker (?:daemon|API)|Got permission denied .*[Dd]ocker",
        "This user may not speak to the docker daemon",
        _NOT_STARTED,
        "sudo usermod -aG docker $USER and a new login (newgrp docker), or rootless docker, or sudo.",
        weight="fatal",
    ),
    rule(
        "driver",
        r"could not select device driver|unresolvable CDI devices|nvidia-container-cli: |failed to discover GPU vendor"
        r"|[Uu]nknown or invalid runtime name: nvidia|could not load NVML library: libnvidia-ml",
        "The container engine cannot hand the GPUs to the container",
        "The NVIDIA container toolkit is missing, is not configured for this engine, or finds no working driver. "
        + _NOT_STARTED,
        "nvidia-smi must work on the host; install nvidia-container-toolkit, then nvidia-ctk runtime configure "
        "--runtime=docker && systemctl restart docker (podman: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml).",
        weight="fatal",
    ),
    rule(
        "missing_dependency",
        r"pull access denied for (?P<image>[\w./:@-]+)|manifest for (?P<image2>[\w./:@-]+) not found|manifest unknown"
        r"|short-name \"(?P<image3>[\w./:@-]+)\" did not resolve|requested access to the resource is denied"
        r"|no such image|[Ii]mage not known|failed to resolve reference",
        lambda case: f"The container's image cannot be had: {_image(case)}",
        "It is not on this machine, and its registry has no such name or tag, or does not give it to this user. "
        + _NOT_STARTED,
        lambda case: (
            f"{_tool(case)} images shows what is here; correct the name and tag, or {_tool(case)} login and "
            f"{_tool(case)} pull {_image(case) if _image(case) != 'the image' else 'IMAGE'} first."
        ),
        weight="fatal",
    ),
    rule(
        "missing_dependency",
        r"Error response from daemon: (?:Get|Head) \"?https?://\S+.*(?:dial tcp|timeout|no such host|x509)"
        r"|pinging container registry .*(?:dial tcp|timeout|no such host|x509)",
        "The container's image could not be fetched: its registry does not answer",
        "The image is not on this machine, and the registry cannot be reached from it. " + _NOT_STARTED,
        "docker pull IMAGE shows it alone; check the network, the proxy of the docker daemon "
        "(systemctl show docker --property Environment), or load the image from a file (docker load -i).",
        weight="fatal",
    ),
    rule(
        "port_in_use",
        r"Bind for \S*:(?P<port>\d+) failed: port is already allocated|exposing port .*:(?P<port2>\d+)"
        r"|rootlessport listen tcp \S*:(?P<port3>\d+): bind: address already in use",
        lambda case: f"The port {case.word('port')} that the container is "
        "to publish is taken",
        "Another container, or another process, listens there. " + _NOT_STARTED,
        "docker ps and ss -ltnp name who has it; stop that, or publish another one: -p OTHER:PORT.",
        weight="fatal",
    ),
    rule(
        "bad_flag",
        r"[Tt]he container name \"/?(?P<name>[\w.-]+)\" is already in use",
        "A container of the name {name} exists already",
        "A container that has ended keeps its name until it is removed. " + _NOT_STARTED,
        "docker rm {name} (docker rm -f {name} where it still runs), or --rm and another --name.",
        weight="fatal",
    ),
    rule(
        "bad_flag",
        r"^(?:docker: |Error: |podman: )?(?:unknown (?:shorthand )?flag: .+|invalid reference format.*"
        r"|invalid argument .+ for \".+\" flag.*|flag needs an argument: .+"
        r"|'?docker run'? requires at least 1 argument.*)",
        lambda case: f"The container engine rejected its command line: {case.found[0][:160]}",
        _NOT_STARTED,
        "Flags of the engine (--gpus, -v, -p) come before the image, flags of the server after it; "
        "docker run --help lists the former.",
        weight="fatal",
    ),
    rule(
        "bad_flag",
        r"(?:srun|salloc|sbatch): error: (?:Unable to allocate resources|Batch job submission failed): (?P<why>.+)"
        r"|(?:srun|salloc|sbatch): error: "
        r"(?P<why2>[Ii]nvalid .+|Unable to create step.+|Unable to confirm allocation.+)",
        lambda case: f"Slurm gave no resources: {case.word('why')}",
        _NOT_STARTED,
        "sinfo -o '%P %a %G %D' lists partitions, GPUs and nodes; correct --partition, --gres, --account or --time.",
        weight="fatal",
    ),
    rule(
        "bad_flag",
        r"^duplicate session: (?P<session>.+)|no server running on (?P<socket>/\S*tmux\S*)|error connecting to \S*tmux",
        lambda case: (
            f"tmux has a session {case.word('session')} already" if case.word("session") else "No tmux server runs"
        ),
        _NOT_STARTED,
        lambda case: (
            f"tmux attach -t {case.word('session')} shows it; tmux kill-session -t {case.word('session')} ends it; or "
            "another name: tmux new-session -d -s NAME."
            if case.word("session")
            else "tmux new-session -d -s NAME 'COMMAND' starts one."
        ),
        weight="fatal",
    ),
)  # fmt: skip
