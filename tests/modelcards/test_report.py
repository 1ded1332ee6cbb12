"""What model cards say in a checkpoint."""

from __future__ import annotations

from pathlib import Path

from tests.checkpoints.telling import section_text, written


def test_sizes_stand_in_words_and_in_full(tmp_path: Path) -> None:
    rendered = written(tmp_path, [
        {"type": "session", "name": "s"},
        {
            "type": "model", "key": "k", "name": "Kimi", "path": "/m", "weight_bytes": 547000000000, "quantization": "INT4",
            "parameters": 1000000000000, "active_parameters": 32000000000, "kv_bytes_per_token": 70272, "kv_tokens": 400000,
        },
        {"type": "model", "path": "/draft", "target": "k", "note": "a draft"},
    ])  # fmt: skip
    assert section_text(rendered, "models") == [
        "- M1 Kimi at /m; weights 547.0 GB (547000000000 bytes); parameters 1.0 T (1000000000000); active for one token "
        "32.0 B (32000000000); quantization INT4; KV cache 70.3 kB (70272 bytes) a token; KV cache of 400000 tokens",
        "- M2 at /draft; drafts for M1; a draft",
    ]
