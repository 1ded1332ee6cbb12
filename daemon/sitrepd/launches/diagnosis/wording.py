"""Advice in the words of the engine whose log it is: what only SGLang takes is left out for another."""

from __future__ import annotations

import re

from sitrepd.launches.diagnosis.known import Known

_OF_VLLM = (
    ("pip show sglang", "pip show vllm"),
    ("'sglang==VERSION'", '"vllm==$(pip show vllm | sed -n s/^Version:.//p)"'),
    ("--speculative-draft-model-path", "the model of --speculative-config"),
    ("leave --speculative-* out", "leave --speculative-config out"),
    ("pip install -U sglang transformers", "pip install -U vllm transformers"),
    ("torch, torchvision, sglang-kernel (sgl-kernel) and flashinfer", "torch, torchvision, vllm and flashinfer"),
    ("torch, sglang-kernel and flashinfer", "torch, vllm and flashinfer"),
    ("sglang-kernel (sgl-kernel), flashinfer and torch builds", "vllm, flashinfer and torch builds"),
    ("python -m sglang.launch_server --help", "vllm serve --help"),
    ("of --dist-init-addr", "of --master-addr"),
    ("the same --dist-init-addr HOST:PORT", "the same --master-addr and --master-port"),
)
_ONLY_SGLANG = re.compile(
    r"SGLANG_|sglang|sgl-kernel|--(?:dist-init-addr|nccl-port|skip-server-warmup|watchdog-timeout|mem-fraction-static"
    r"|disable-cuda-graph|sampling-backend|moe-runner-backend|chunked-prefill-size|weight-loader-disable-mmap"
    r"|speculative-(?!config)\S+|tp-size|context-length|cuda-graph-\S+|max-running-requests|enable-deterministic-inference"
    r"|attention-backend (?:triton|flashinfer))\b"
)
_CLAUSE = re.compile(r"(?<=[;.]) +(?=\S)")
_NOTHING_LEFT = "Look for this message in the issues of the engine, and at the lines around it in the log."


def in_words_of(known: Known, fix: str) -> str:
    """The fix as it is for SGLang and where the engine is not known."""
    return _filled(known, fix if not known.is_vllm else _for_vllm(fix))


def _filled(known: Known, fix: str) -> str:
    """Addresses, processes and versions instead of words that stand for them."""
    address = str(known.get("dist_init_addr") or "")
    name = "VLLM::" if known.is_vllm else "sglang::sched"
    fix = fix.replace("--pid PID", f"--pid $(pgrep -of {name})")
    fix = fix.replace("sglang==VERSION'", "sglang==$(pip show sglang | sed -n s/^Version:.//p)'").replace(
        "install 'sglang==$(pip show sglang | sed -n s/^Version:.//p)'",
        'install "sglang==$(pip show sglang | sed -n s/^Version:.//p)"',
    )
    fix = fix.replace("NCCL_SOCKET_IFNAME=IFACE", "NCCL_SOCKET_IFNAME with one of ip -br link")
    if address:
        return fix.replace("HOST:PORT", address).replace("HOST PORT", address.replace(":", " "))
    fix = fix.replace("reach HOST:PORT of", "reach the address of").replace(" HOST:PORT", "")
    return fix.replace("nc -vz HOST PORT from", "nc -vz tries that address from")


def _for_vllm(fix: str) -> str:
    for before, after in _OF_VLLM:
        fix = fix.replace(before, after)
    clauses = _CLAUSE.split(fix)
    kept = [clause for clause in clauses if not _ONLY_SGLANG.search(clause)]
    if len(kept) == len(clauses):
        return fix
    told = " ".join(kept).rstrip(";. ")
    told = re.sub(r"^(?:or|and) ", "", told)
    return f"{told}." if told else _NOTHING_LEFT
