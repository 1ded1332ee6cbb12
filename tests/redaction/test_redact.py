from __future__ import annotations

import json
import os
import random
import re
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.redaction.corpus import ALNUM, PROSE, TOKENS, chars, negatives, positives

from sitrepd.redact import (
    is_secret_name,
    redact_argv,
    redact_command,
    redact_env,
    redact_json,
    redact_part,
    redact_text,
    secret_references,
)

DATA = Path(__file__).parents[1] / "data"
POSITIVES = list(positives())
NEGATIVES = list(negatives())
KEY = chars(random.Random(1), ALNUM, 24)
OTHER = chars(random.Random(2), ALNUM, 24)
WAYS = [redact_text, redact_command, redact_json, lambda text: redact_argv([text])[0]]
HF = TOKENS["hugging face"](random.Random(3))


def test_the_corpus_is_large_enough() -> None:
    assert len({text for text, _ in POSITIVES}) >= 200
    assert len(set(NEGATIVES)) >= 200


@pytest.mark.parametrize("redact", WAYS)
def test_no_secret_of_the_corpus_is_left(redact) -> None:
    left = [text for text, secret in POSITIVES if secret in redact(text)]
    assert left == []


def test_what_stands_around_a_secret_stays() -> None:
    changed = []
    for text, secret in POSITIVES:
        if "PRIVATE KEY" not in text:
            before, after = text.split(secret)
            redacted = redact_text(text)
            if not (redacted.startswith(before) and redacted.endswith(after)):
                changed.append((text, redacted))
    assert changed == []


@pytest.mark.parametrize("redact", WAYS)
def test_what_only_looks_secret_stays(redact) -> None:
    assert [text for text in NEGATIVES if redact(text) != text] == []


@pytest.mark.parametrize("redact", WAYS)
def test_passwords_in_other_tongues_and_with_an_at_in_them(redact) -> None:
    secret = "7qrCx1d12!MZTOLgc"
    texts = (
        "Das Passwort lautet: {}", "Passwort: {}", "das Kennwort ist {} und", "db_passwort={}", "Mot de passe : {}",
        "La contraseña es {}", "密码：{}", "密码是{}，别外传", "パスワードは「{}」", "пароль: {}",
        "redis://:p@{}@10.0.0.3:6379/0", "postgresql://sitrep:{}@4u@db.example.org:5432/x?user=a@b",
    )  # fmt: skip
    assert [text for text in texts if secret in redact(text.format(secret))] == []
    assert redact_text("redis://:p@7q@10.0.0.3:6379/0 for a@b") == "redis://:${URL_PASSWORD}@10.0.0.3:6379/0 for a@b"
    stay = (
        "Passwort vergessen? Seite 404", "Das Passwort ist abgelaufen", "密码：请见维基第3页", "пароль: нет",
        "git@example.org:22/a@b", "https://example.org:8443/to?mail=a@b.org", "ssh://git@example.org:22/a@b",
    )  # fmt: skip
    assert [text for text in stay if redact(text) != text] == []


def test_recorded_logs_and_results_stay() -> None:
    files = [*DATA.glob("logs/*.log"), *DATA.glob("bench/*.jsonl")]
    changed = [
        line for path in files for line in path.read_text(errors="replace").splitlines() if redact_text(line) != line
    ]
    assert files
    assert changed == []


def test_names_in_sentences_and_programs_are_not_values() -> None:
    assert [text for text in PROSE if redact_text(text) != text] == []


@pytest.mark.parametrize("first", [redact_text, redact_command])
@pytest.mark.parametrize("second", [redact_text, redact_command])
def test_twice_is_the_same_as_once(first, second) -> None:
    assert [text for text, _ in POSITIVES if second(first(text)) != first(text)] == []


def test_all_lines_at_once_are_as_clean_as_each_alone() -> None:
    redacted = redact_text("\n".join(text for text, _ in POSITIVES))
    assert [secret for _, secret in POSITIVES if secret in redacted] == []
    plain = "\n".join(NEGATIVES)
    assert redact_text(plain) == plain


@given(st.text(alphabet=st.sampled_from("key=:'\"\\ ${}tokenİ,()[]-@/\nsecret https://api_hf_1"), max_size=60))
def test_any_text_is_idempotent(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once
    assert redact_command(redact_command(text)) == redact_command(text)


def test_text_that_grows_when_lowered_keeps_its_places() -> None:
    assert redact_text(f"İİİ api_key='{KEY}' İ") == "İİİ api_key='${API_KEY}' İ"


@pytest.mark.parametrize("value", ["hunter2", "correcthorse", "1234", "p@ss,w0rd", "пароль"])
def test_short_and_odd_passwords(value: str) -> None:
    assert redact_env({"DB_PASSWORD": value}) == {"DB_PASSWORD": "${DB_PASSWORD}"}
    assert redact_argv(["serve", "--password", value]) == ["serve", "--password", "${PASSWORD}"]
    assert redact_json({"password": value}) == {"password": "${PASSWORD}"}
    assert redact_command(f"DB_PASSWORD='{value}' serve") == 'DB_PASSWORD="${DB_PASSWORD}" serve'
    assert redact_text(f"password='{value}'") == "password='${PASSWORD}'"


def test_a_value_that_is_cut_off_is_secret_too() -> None:
    assert redact_text(f"server_args={{'api_key': '{KEY}") == "server_args={'api_key': '${API_KEY}"
    assert redact_text("-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEpAIBAAKCAQEA\nabc") == "${PRIVATE_KEY}"


def test_environment_keeps_names_and_refers_to_itself() -> None:
    env = {
        "HF_TOKEN": HF,
        "DATABASE_URL": f"postgresql://sitrep:{KEY}@db/sitrep",
        "EXTRA_ARGS": f"--api-key {KEY} --port 1",
        "OPENAI_API_KEY": "EMPTY",
        "PATH": "/usr/bin:/bin",
        "TOKENIZERS_PARALLELISM": "false",
        "GPG_KEY": "A035C8C19219BA821ECEA86B64E628F8D684696D",
    }
    redacted = redact_env(env)
    assert redacted == env | {n: "${" + n + "}" for n in ("HF_TOKEN", "DATABASE_URL", "EXTRA_ARGS")}
    assert secret_references(env, redacted) == {n: env[n] for n in ("HF_TOKEN", "DATABASE_URL", "EXTRA_ARGS")}
    assert redact_env(redacted) == redacted


def test_arguments_of_a_process() -> None:
    argv = [
        "env",
        f"HF_TOKEN={HF}",
        "python",
        "--api-key",
        KEY,
        f"--admin-api-key={OTHER}",
        "--max-total-tokens",
        "1",
    ]
    redacted = redact_argv(argv)
    assert redacted == [
        "env", "HF_TOKEN=${HF_TOKEN}", "python", "--api-key", "${API_KEY}", "--admin-api-key=${ADMIN_API_KEY}",
        "--max-total-tokens", "1",
    ]  # fmt: skip
    assert secret_references(argv, redacted) == {"HF_TOKEN": HF, "API_KEY": KEY, "ADMIN_API_KEY": OTHER}
    assert redact_argv(redacted) == redacted


def test_an_option_without_value_takes_none() -> None:
    argv = ["serve", "--api-key", "--port", "8000", "--hf-token"]
    assert redact_argv(argv) == argv


def test_two_values_of_one_name_get_two_references() -> None:
    command = f"a --api-key {KEY}; b --api-key {OTHER}; c --api-key {KEY}"
    redacted = redact_command(command)
    assert redacted == "a --api-key ${API_KEY}; b --api-key ${API_KEY_2}; c --api-key ${API_KEY}"
    assert secret_references(command, redacted) == {"API_KEY": KEY, "API_KEY_2": OTHER}


COMMANDS = [
    f"env HF_TOKEN={HF} printenv HF_TOKEN",
    f"HF_TOKEN='{HF}' bash -c 'echo $HF_TOKEN'",
    f"printf '%s\\n' --api-key {KEY} --port 8000",
    f"printf '%s\\n' --api-key '{KEY}' \"--admin-api-key={OTHER}\"",
    f"printf '%s\\n' --password ab{KEY}'; $x \"'\\$c --port 8000",
    f"printf '%s\\n' -H 'Authorization: Bearer {KEY}'",
    f'printf \'%s\\n\' -d \'{{"api_key": "{KEY}", "price": "$5"}}\'',
    f"bash -c \"printf '%s\\n' --api-key {KEY}\" && echo done",
    f"printf '%s\\n' https://user:{KEY}@example.org/x > /dev/stdout 2>&1",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_redacted_command_runs_as_the_original_with_the_values_in_its_environment(command: str) -> None:
    redacted = redact_command(command)
    assert KEY not in redacted
    assert OTHER not in redacted
    assert HF not in redacted
    values = secret_references(command, redacted)
    assert values
    assert _bash(redacted, values) == _bash(command, {})
    assert redact_command(redacted) == redacted
    assert redact_text(redacted) == redacted


def test_a_command_with_an_open_quotation() -> None:
    command = f"serve --api-key 'a {KEY}"
    redacted = redact_command(command)
    assert redacted.startswith("serve --api-key ")
    assert KEY not in redacted
    assert KEY in secret_references(command, redacted)["API_KEY"]


def _bash(command: str, env: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-c", command], env={"PATH": os.environ["PATH"], **env}, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_json_by_keys_and_by_content() -> None:
    value = {
        "api_key": KEY,
        "admin_api_key": None,
        "api_keys": [KEY, OTHER],
        "password": 123456,
        "max_tokens": [1, 2],
        "token": "",
        "argv": ["serve", "--api-key", KEY],
        "launch_command": f"--model-path /m --api-key {KEY} --port 1",
        "deep": [{"headers": {"Authorization": f"Bearer {KEY}"}, "size": 3, "ratio": 0.5, "on": True}],
        "env": [{"name": "HF_TOKEN", "value": HF}, {"name": "MODEL", "value": "Kimi-K2.5"}],
        "git": "3f786850e387550fdab836ed7e6dc881de23001b",
    }
    redacted = redact_json(value)
    assert redacted == value | {
        "api_key": "${API_KEY}",
        "api_keys": ["${API_KEYS_1}", "${API_KEYS_2}"],
        "password": "${PASSWORD}",
        "argv": ["serve", "--api-key", "${API_KEY}"],
        "launch_command": "--model-path /m --api-key ${API_KEY} --port 1",
        "env": [{"name": "HF_TOKEN", "value": "${HF_TOKEN}"}, {"name": "MODEL", "value": "Kimi-K2.5"}],
        "deep": [{"headers": {"Authorization": "Bearer ${BEARER_TOKEN}"}, "size": 3, "ratio": 0.5, "on": True}],
    }
    assert redact_json(redacted) == redacted
    text = redact_text(json.dumps({**value, "password": "123456"}))
    assert json.loads(text)["deep"] == redacted["deep"]
    assert KEY not in text
    assert OTHER not in text


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("HF_TOKEN", True), ("WANDB_API_KEY", True), ("AWS_SECRET_ACCESS_KEY", True), ("AWS_ACCESS_KEY_ID", True),
        ("MYCORP_TOKEN", True), ("clientSecret", True), ("X-Api-Key", True), ("MYSQL_PWD", True), ("DB_PASS", True),
        ("--token", True), ("token", False), ("---Inter-Token", False), ("--image-token", False),
        ("ssl_keyfile_password", True), ("watermark_key_b", True), ("SSHPASS", True),
        ("PWD", False), ("OLDPWD", False), ("SSH_AUTH_SOCK", False), ("HF_TOKEN_PATH", False), ("eos_token", False),
        ("tokenizer_path", False), ("max_total_tokens", False), ("ssl_keyfile", False), ("public_key", False),
        ("KEY", False), ("PASS", False), ("monkey", False),
    ],
)  # fmt: skip
def test_names(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


def test_every_reference_is_a_variable_of_the_shell() -> None:
    names = [name for text, _ in POSITIVES for name in re.findall(r"\$\{([^}]*)\}", redact_text(text))]
    assert names
    assert all(re.fullmatch(r"[A-Z_][A-Z0-9_]*", name) for name in names)


def test_a_key_in_a_long_line_of_server_arguments_is_found() -> None:
    settings = ", ".join(f"'speculative_option_{i}': {'None' if i % 3 else repr('auto')}" for i in range(560))
    line = f"[2026-12-01 01:42:26] server_args={{{settings}, 'api_key': '{KEY}', 'max_total_tokens': 8192, "
    line += ", ".join(f"'tokenizer_worker_{i}': 1" for i in range(40)) + "}"
    assert len(line) > 18_000
    assert KEY not in redact_text(line)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["password=,", "api_key='", 'api_key="', "://a:", "curl x ", "authorization: bearer "])
def test_time_grows_with_the_text_and_no_faster(part: str) -> None:
    def seconds(text: str) -> float:
        began = time.process_time()
        redact_text(text)
        redact_command(text)
        return time.process_time() - began

    once, tenfold = (min(seconds(part * count) for _ in range(3)) for count in (4_000, 40_000))
    assert tenfold < 40 * max(once, 0.001), "what grows with the square takes a hundred times as long"


def test_no_piece_of_a_secret_is_left_wherever_a_text_is_cut() -> None:
    text = f"é first line\nHF_TOKEN={HF} x\nlast\n".encode()
    at = text.index(HF.encode())
    for cut in range(len(text) + 1):
        before, after = redact_part(text, 0, cut), redact_part(text, cut, len(text))
        assert all(piece not in before + " " + after for piece in (HF[:8], HF[8:16], HF[-8:])), cut
        if at < cut < at + len(HF):
            assert before.endswith("HF_TOKEN=${HF_TOKEN}")
            assert after == "${HF_TOKEN} x\nlast\n"
    assert redact_part(text, 0, 3) + redact_part(text, 3, len(text)) == redact_text(text.decode())


@pytest.mark.parametrize("value", ["abcàdef123", "caféÅ9…x7", "x1日本y2z3"])  # the bytes 0x85 and 0xA0 are no space
@pytest.mark.parametrize("before", ["", "日本 ", "caf\xe9 \xff "])
def test_a_part_of_a_text_is_read_as_the_text_is(before: str, value: str) -> None:
    latin = before.encode("latin-1") if before.isprintable() and before.startswith("caf") else before.encode()
    data = latin + f"password='{value}' end".encode()
    assert redact_part(data, 0, len(data)) == latin.decode("utf-8", "replace") + "password='${PASSWORD}' end"
    assert redact_part(data, len(latin), len(data)) == "password='${PASSWORD}' end"


@pytest.mark.parametrize("name", ["пароль", "密码", "パスワード", "비밀번호"])
def test_names_of_other_tongues_are_known_in_a_part(name: str) -> None:
    data = f"日本 – {name}: hunter2x7 end\n".encode()
    assert redact_part(data, 0, len(data)) == redact_text(data.decode())
    assert "hunter2x7" not in redact_part(data, 0, len(data))
    cut = data.index(b"ter2x7")
    assert redact_part(data, cut, len(data)) == "${PASSWORD} end\n"
