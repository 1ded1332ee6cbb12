"""Ports, shared memory, NCCL and rendezvous."""

from __future__ import annotations

import re

from sitrepd.launches.diagnosis.case import Case, Rule
from sitrepd.launches.diagnosis.rules._make import rule


def _port(case: Case) -> str:
    """Of the port by which ranks meet only what the message says: the server's own is another one."""
    return case.word("port") or str(case.known.get("nccl_port" if _is_inner(case) else "port") or "")


def _taken(case: Case) -> str:
    port = _port(case)
    if _is_of_messages(case, port):
        return f"{f'Port {port}' if port else 'The port'} of a socket inside the engine is already in use"
    if _is_between_the_ranks(case, port):
        return f"{f'Port {port}' if port else 'The port'} by which the ranks find each other is already in use"
    return f"Port {port} is already in use" if port else "A port that the server needs is already in use"


def _taken_cause(case: Case) -> str:
    if _is_of_messages(case, _port(case)):
        return (
            "Another process, often one left of an earlier start, holds an address by which the engine's own processes "
            "send messages (ZMQ); it is not the HTTP port."
        )
    if _is_between_the_ranks(case, _port(case)):
        return "Another process listens there (often the ranks of an earlier start), so the ranks could not meet."
    return (
        "Another process listens there, so this server serves nobody; a ready line after this comes from the other "
        "server's answers."
    )


def _other_port(case: Case) -> str:
    """The HTTP port has a flag of its own; ranks rendezvous on others."""
    told = _port(case)
    port = told or ""
    other = str(int(port) + 1) if port.isdigit() and int(port) < 65535 else "30001"
    find = f"ss -ltnp 'sport = :{port}' shows who holds it" if port else "ss -ltnp shows who listens where"
    if _is_of_messages(case, told):
        return (
            f"{find}; end it, then start again. What has a port of its own (a publisher of KV events, a connector for "
            "KV transfer) can be given another one."
        )
    if "torch/distributed/elastic/" in case.frames:
        return f"{find}; end it, or choose another port: torchrun --master-port {other} (the same on all nodes)."
    if _is_between_the_ranks(case, told):
        flag = "--master-port" if case.known.is_vllm else "--nccl-port"
        return f"{find}; end it, or choose another port: {flag} {other} (several nodes: --dist-init-addr HOST:{other})."
    return f"{find}; end it, or start with --port {other}."


def _is_between_the_ranks(case: Case, port: str) -> bool:
    return _is_inner(case) and (not port or port != str(case.known.get("port") or ""))


def _is_of_messages(case: Case, port: str) -> bool:
    return _OF_MESSAGES.search(case.text) is not None and (not port or port != str(case.known.get("port") or ""))


def _is_inner(case: Case) -> bool:
    words = (case.text + case.frames).lower()
    return any(
        word in words
        for word in ("nccl", "tcpstore", "distnetwork", "the server socket", "rpc_port", "zmq", "dist_init")
    )


_OF_MESSAGES = re.compile(r"zmq\.error\.ZMQError|already in use \(addr='tcp://")
_BIND = (
    r"\[Errno 98\](?:[^\n]{0,80}\('[^']*', (?P<port>\d+))?|[Aa]ddress already in use(?: \(.*?(?P<port2>\d{4,5})'?\))?"
    r"|EADDRINUSE"
    r"|[Pp]ort[ :=]*(?P<port3>\d+)[^\n]{0,20} (?:is )?(?:already )?(?:in use|taken|occupied|not available|used by)"
    r"|_port\b.{0,40} is used by a process already|port .{0,30} is used by a process already"
    r"|nccl_port.{0,40}(?:collision|in use)"
    r"|failed to (?:listen on any local network address|bind).{0,200}port: (?P<port4>\d+)"
    r"|The server socket has failed to (?:listen|bind)(?:[^\n]{0,200}?\bport: (?P<port7>\d+))?"
    r"|ouldn't bind HTTP server socket.*port: (?P<port5>\d+)"
    r"|Failed to bind to address \S+:(?P<port6>\d+)"
)

PORTS: tuple[Rule, ...] = (
    rule(
        "port_in_use",
        _BIND,
        _taken,
        _taken_cause,
        _other_port,
        weight="fatal",
        needs=lambda case: "TIME_WAIT" not in case.found.string,
    ),
)

_SHM_FIX = (
    "df -h /dev/shm; remove what dead servers left (rm /dev/shm/nccl-* /dev/shm/psm_*); "
    "docker run --ipc=host or --shm-size=32g; Kubernetes: an emptyDir with medium: Memory on /dev/shm."
)

SHARED_MEMORY: tuple[Rule, ...] = (
    rule(
        "shm_exhausted",
        r"(?:shared memory segment|/dev/shm|/psm_|/torch_\d|shm_open|shm_size|nccl-\w+)[^\n]{0,200}(?:No space left"
        r"|Cannot allocate memory)"
        r"|No space left on device[^\n]{0,60}(?:/dev/shm|shm|/psm_|/torch_)|failed to extend /dev/shm"
        r"|Error while creating shared memory segment|insufficient shared memory|out of shared memory(?!,)"
        r"|unable to (?:mmap|allocate shared memory|write to file </torch_|resize file </torch_)"
        r"|unable to allocate shared memory\(shm\)",
        "/dev/shm is too small or full",
        "Processes share memory through /dev/shm, and there was no room left for another segment.",
        _SHM_FIX,
    ),
    rule(
        "shm_exhausted",
        r"No space left on device|Bus error",
        "/dev/shm is too small or full",
        "Processes share memory through /dev/shm, and there was no room left for another segment.",
        _SHM_FIX,
        frames=r"shared_memory\.py|shm_broadcast|multiprocessing/(?:heap|synchronize)",
    ),
)

HANG = (
    "Start once with NCCL_DEBUG=INFO; on PCIe-only machines try NCCL_P2P_DISABLE=1 (or iommu=off on the kernel's "
    "command "
    "line); with several networks NCCL_SOCKET_IFNAME=IFACE; py-spy dump --pid PID shows where each rank waits."
)
_NCCL_FIX = (
    "Start once with NCCL_DEBUG=INFO and read the first NCCL WARN; check nvidia-smi topo -m, NCCL_SOCKET_IFNAME, and "
    "that all "
    "nodes reach HOST:PORT of --dist-init-addr; NCCL_P2P_DISABLE=1 or NCCL_IB_DISABLE=1 rules a transport out."
)


def _no_interface(case: Case) -> str:
    name = case.word("name")
    return f"The ranks find no network interface {name}".rstrip() + (
        " on this machine" if name else " to speak through"
    )


RULES: tuple[Rule, ...] = (
    rule(
        "nccl_hang",
        r"[Ww]atchdog caught collective operation timeout: (?:WorkNCCL\()?(?:SeqNum=\d+, )?(?:OpType=(?P<op>\w+))?"
        r"|collective operation timeout|ran for \d+ milliseconds before timing out"
        r"|dump signal due to a collective timeout",
        "A collective operation of the ranks never returned",
        "A rank waited for the others until the time limit: one of them was stuck or the transport between the GPUs "
        "hangs.",
        HANG,
        standing="follows",
        weight="fatal",
    ),
    rule(
        "nccl_error",
        r"Timed out after \d+ seconds? waiting for clients|client socket has timed out|wait timeout after \d+ms"
        r"|store->get\(.*got error|Timeout waiting for key|DistStoreError|rendezvous .*(?:timed? ?out|failed)"
        r"|RendezvousTimeout|waitForInput: .* timed out after \d+ms"
        r"|client socket has failed to connect|DistNetworkError.*gai error",
        "The ranks did not find each other in time",
        "The rendezvous of the ranks failed: a rank or a node did not come, or the address of the first one is not "
        "reachable.",
        "Start all nodes with the same --dist-init-addr HOST:PORT and --nnodes, the right --node-rank each; nc -vz "
        "HOST PORT from "
        "every node; GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME name the network to use.",
        standing="follows",
    ),
    rule(
        "nccl_error",
        r"[Uu]nable to find address for: ?(?P<name>[\w.:@=^-]+)"
        r"|Unable to find interface(?: for)?:? ?(?P<name2>[\w.:@-]+)?"
        r"|Bootstrap ?: no socket interface found|no (?:usable|socket) interface found",
        _no_interface,
        "GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME or TP_SOCKET_IFNAME names an interface that this machine or container "
        "lacks, or one without an address.",
        "ip -br address lists what there is; set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME to one that is up (several "
        "nodes: the one by which they reach each other), or unset both.",
        standing="follows",
    ),
    rule(
        "nccl_error",
        r"(?:nvshmem|ibrc|ibgda)[^\n]{0,120}ibv_\w+(?:\(\))? failed",
        "NVSHMEM could not set up the connection between the ranks by InfiniBand or RoCE",
        "DeepEP sends between the nodes by NVSHMEM, and the network card refused the connection: often the wrong GID "
        "or a card that is not up.",
        "show_gids and ibv_devinfo -v list GIDs and cards; NVSHMEM_IB_GID_INDEX takes the index of a RoCE v2 GID, "
        "NVSHMEM_HCA_LIST the cards that are up; NVSHMEM_DEBUG=INFO shows which it tries.",
        standing="follows",
    ),
    rule(
        "nccl_error",
        r"[Mm]ooncake (?:Transfer Engine|TransferEngine)? ?[Ii]nitiali[sz]ation failed|GID is NULL"
        r"|(?:No|no) (?:available |usable )?(?:RDMA|HCA|InfiniBand) (?:devices?|interfaces?) (?:found|available|is|are)"
        r"|Failed to open device \S+ on port|ibv_\w+(?:\(\))? failed",
        "The transfer of the KV cache between prefill and decode servers could not be set up",
        "The transfer engine found no RDMA device, port or GID that it can use.",
        "ibv_devinfo -v and show_gids list devices, ports and GIDs; name a device that is up in "
        "--disaggregation-ib-device, the index of a RoCE v2 GID in MC_GID_INDEX; without RDMA: MC_FORCE_TCP=1.",
        standing="follows",
    ),
    rule(
        "nccl_error",
        r"socketStartConnect: exceeded timeouts|Bootstrap plugin init failed"
        r"|nvshmem\w*:? [^\n]{0,60}bootstrap[^\n]{0,40}fail",
        "NVSHMEM could not set up the connection between the ranks",
        "A rank did not reach the others at NVSHMEM's bootstrap: a wrong interface, a firewall, or a lost rank.",
        "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME and NCCL_SOCKET_IFNAME name the interface by which the nodes reach "
        "each other; NVSHMEM_DEBUG=INFO shows which address it tries.",
        weight="fatal",
        standing="follows",
    ),
    rule(
        "nccl_error",
        r"DistBackendError.*(?:NCCL|remote process)|NCCL error(?: in:|: )|ncclSystemError|ncclInternalError"
        r"|ncclUnhandledCudaError"
        r"|\bHCCL error|\bHccl\w+ failed|HcclCommInit\w*.*(?:fail|error)|oneCCL.*(?:fail|error)"
        r"|ncclInvalidUsage|ncclInvalidArgument|NCCL Error \d|NCCL failure|unhandled (?:cuda|system) error"
        r"|NCCL WARN .*(?:[Ff]ailed|error)"
        r"|ncclCommInitRank.*fail|libnccl.*(?:error|failed)|Gloo connectFullMesh failed|gloo.*(?:timed? ?out"
        r"|Unable to find interface)"
        r"|unable to find address for|Unable to find address for|nvshmem (?:initialization|setup connections) failed",
        "NCCL could not set up or use the connection between the ranks",
        "A call of NCCL (or Gloo, or NVSHMEM) failed; its first warning in the log says which transport.",
        _NCCL_FIX,
        needs=lambda case: not _is_aftermath(case),
        standing="follows",
    ),
)


def _is_between_ranks(case: Case) -> bool:
    """Pipes and sockets break elsewhere too, when any other process has ended."""
    return (
        re.search(
            r"c10d|gloo|nccl|tcpstore|process ?group|torch[./]distributed|socket(?:impl|\.cpp)|rank|rendezvous",
            f"{case.text}\n{case.frames}",
            re.IGNORECASE,
        )
        is not None
    )


def _is_aftermath(case: Case) -> bool:
    text = case.text.lower()
    return any(
        word in text
        for word in ("remote process exited", "connection reset by peer", "connection closed", "broken pipe", "aborted")
    )


SECONDARY: tuple[Rule, ...] = (
    rule(
        "nccl_error",
        r"remote process exited|ncclRemoteError|[Cc]onnection (?:reset by|closed by)? ?peer|Broken pipe"
        r"|BrokenPipeError|recvValue failed"
        r"|sendBytes failed|ConnectionResetError|ConnectionRefusedError|Failed to recv|Socket closed|TCPStore.*(?:fail"
        r"|broken)"
        r"|ncclInternalError|gloo/transport|DistBackendError|HeartbeatMonitor|failed to check the \"should dump\" flag"
        r"|[Cc]onnection closed",
        "The connection between the ranks broke",
        "A rank lost its partner: another process or node ended first, and its own log says why.",
        "Look at the logs of the other ranks and nodes for the first exception; " + _NCCL_FIX,
        needs=_is_between_ranks,
        standing="secondary",
    ),
)
