"""Settings: the environment (SITREP_*) first, then a TOML file, then these defaults."""

from __future__ import annotations

import ipaddress
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from sitrepd.errors import SitrepError
from sitrepd.places import config_file, default_data_dir

DEFAULT_PORT = 8791
Notable = Literal["ready", "failed", "exited", "lost", "suspect", "sweep", "throttling", "gpu_lost"]


class Settings(BaseSettings):
    """What an operator may set. Each field is SITREP_<FIELD> in the environment and <field> in the TOML file."""

    model_config = SettingsConfigDict(
        env_prefix="SITREP_", env_ignore_empty=True, extra="ignore", validate_default=True
    )

    data_dir: Path = Field(default_factory=default_data_dir, description="The store: database, socket, token, logs.")
    host: str = Field("127.0.0.1", description="The address to listen on.")
    port: int = Field(DEFAULT_PORT, ge=0, le=65535, description="The TCP port; 0 takes a free one.")
    allow_remote: bool = Field(False, description="Listen on another address than loopback without TLS.")
    tls_certfile: Path | None = Field(None, description="TLS certificate (PEM); with it other addresses are allowed.")
    tls_keyfile: Path | None = Field(None, description="Key of the TLS certificate (PEM).")
    allowed_hosts: list[str] = Field(
        default_factory=list, description="More Host names to accept, as a reverse proxy sends them (JSON list)."
    )
    allow_network_filesystem: bool = Field(False, description="Keep the store on NFS and the like all the same.")
    templates_dir: Path | None = Field(None, description="A folder whose templates come before the ones shipped.")
    checkpoint_budget: int = Field(
        9000, ge=1000, description="Characters of a checkpoint when none are asked for; 2000t means tokens."
    )
    idle_after_s: float = Field(30.0, gt=0, description="Seconds without a fact or a question that count as idle.")
    idle_check_s: float = Field(1.0, gt=0, description="Seconds between two looks at whether the session idles.")
    checkpoint_every_h: float = Field(
        4.0,
        ge=0,
        description="Hours after which an open session is written down anew where facts have changed; 0: never.",
    )
    checkpoint_quiet_s: float = Field(
        2.0,
        gt=0,
        description="Seconds of quiet after benchmarks and directives were told, before they are written down.",
    )
    adopt: bool = Field(True, description="Follow servers that somebody else started as launches, as soon as seen.")
    adopt_below: Path | None = Field(
        None, description="Follow only those whose working directory is this folder or below it; all if absent."
    )
    discover_s: float = Field(3.0, gt=0, description="Seconds between two looks for servers among all processes.")
    log_poll_s: float = Field(0.25, gt=0, description="Seconds between two looks at a growing log.")
    sample_s: float = Field(1.0, gt=0, description="Seconds between GPU samples while a launch is alive.")
    sample_idle_s: float = Field(10.0, gt=0, description="Seconds between GPU samples otherwise.")
    gpu_processes_s: float = Field(10.0, gt=0, description="Seconds between two lists of the processes on the GPUs.")
    nvml_timeout_s: float = Field(5.0, gt=0, description="Seconds after which the NVIDIA driver is said not to answer.")
    kernel_log: Path = Field(
        Path("/dev/kmsg"),
        description="Where the kernel's messages are read, for Xid errors and the OOM killer; else by journalctl.",
    )
    samples_keep_d: float = Field(14.0, gt=0, description="Days for which GPU samples are kept second by second.")
    sample_minutes_keep_d: float = Field(
        365.0, gt=0, description="Days for which they are kept minute by minute; hours are kept for ever."
    )
    figures_keep_h: float = Field(168.0, gt=0, description="Hours for which a server's figures over time are kept.")
    checkpoints_keep: int = Field(
        200, ge=1, description="Checkpoints of a session that are kept whatever their age, the newest."
    )
    checkpoints_keep_d: float = Field(
        14.0, ge=0, description="Days for which all checkpoints are kept; pinned, named and cited ones always are."
    )
    deliveries_keep: int = Field(500, ge=1, description="Deliveries of a session that are kept, the newest.")
    events_keep_d: float = Field(
        180.0, gt=0, description="Days for which the log of changes is kept; comparisons and timelines are made of it."
    )
    retention_h: float = Field(6.0, gt=0, description="Hours between two times that what is too old is dropped.")
    suspect_after_s: float = Field(
        120.0,
        gt=0,
        description="Seconds without movement before a start, or a server with requests in work, can be called stuck.",
    )
    link_ttl_s: float = Field(600.0, gt=0, description="Seconds for which a dashboard link can be opened, once.")
    notify_webhook: list[str] = Field(
        default_factory=list, description="Addresses that get what is waited for as a JSON object (JSON list)."
    )
    notify_ntfy: list[str] = Field(
        default_factory=list, description="Topics of ntfy, such as `https://ntfy.sh/my-topic` (JSON list)."
    )
    notify_slack: list[str] = Field(
        default_factory=list, description="Incoming webhooks of Slack, or of what speaks as it does (JSON list)."
    )
    notify_on: list[Notable] = Field(
        ["ready", "failed", "lost", "suspect", "sweep", "throttling", "gpu_lost"],
        description="What they, waiting agents and `sitrep wait` are told of; `exited` besides (JSON list).",
    )
    wake_agents: bool = Field(
        True, description="Whether an idle agent is woken, by a request to its model, when what it waits for happens."
    )
    log_level: str = Field("warning", description="How much the daemon says: debug, info, warning, error.")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order of precedence: arguments, environment, TOML file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=config_file())

    @field_validator("data_dir", "templates_dir", "adopt_below", "tls_certfile", "tls_keyfile")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        return value.expanduser().absolute() if value is not None else None

    @field_validator("checkpoint_budget", mode="before")
    @classmethod
    def _as_on_the_command_line(cls, value: Any) -> Any:
        """As `--budget` has it: 2000t is tokens, brief and standard are characters too."""
        if not isinstance(value, str) or value.strip().isdigit():
            return value
        from sitrepd.checkpoints.budget import parse_budget

        try:
            found = parse_budget(value)
        except SitrepError as error:
            raise ValueError(error.detail.partition(": ")[2] or error.detail) from error
        if found is None:
            raise ValueError("give a number: a checkpoint that nobody asked for has to end somewhere")
        return found

    @field_validator("notify_webhook", "notify_ntfy", "notify_slack")
    @classmethod
    def _http_alone(cls, value: list[str]) -> list[str]:
        for url in value:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError("each has to be an address that begins with http:// or https://")
        return value

    @field_validator("log_level")
    @classmethod
    def _known_level(cls, value: str) -> str:
        if value.lower() not in ("debug", "info", "warning", "error"):
            raise ValueError("use debug, info, warning or error")
        return value.lower()

    @model_validator(mode="after")
    def _doors_are_closed(self) -> Settings:
        if not self.is_loopback and not self.allow_remote and self.tls_certfile is None:
            raise ValueError(
                f"host {self.host} can be reached from elsewhere: give tls_certfile and tls_keyfile, "
                "put a TLS proxy in front of 127.0.0.1, or set SITREP_ALLOW_REMOTE=true if the network is trusted"
            )
        return self

    @cached_property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the TCP door."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def database_path(self) -> Path:
        return self.data_dir / "sitrep.db"

    @property
    def socket_path(self) -> Path:
        return self.data_dir / "sitrep.sock"

    @property
    def token_path(self) -> Path:
        return self.data_dir / "token"

    @property
    def launches_dir(self) -> Path:
        return self.data_dir / "launches"


def load_settings(**told: Any) -> Settings:
    """Settings from all sources; SitrepError names the setting that is wrong and how it can be set."""
    try:
        return Settings(**{name: value for name, value in told.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        where = f"Setting {name} (SITREP_{name.upper()})" if name else "Settings"
        raise SitrepError(f"{where}: {first['msg'].removeprefix('Value error, ')}.") from error
    except (OSError, ValueError) as error:
        raise SitrepError(f"The settings file {config_file()} cannot be read: {error}.") from error
