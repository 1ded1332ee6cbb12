"""Texts with a secret in them and texts that only look so, made from a seed: none is anybody's key."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import string
import uuid
from collections.abc import Callable, Iterator

ALNUM = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"


def chars(rng: random.Random, alphabet: str, count: int) -> str:
    """Text of `alphabet` with a letter and a digit in it, as generated keys have."""
    letters = [c for c in alphabet if c.isalpha()]
    digits = [c for c in alphabet if c.isdigit()]
    return "".join([rng.choice(letters), rng.choice(digits), *rng.choices(alphabet, k=count - 2)])


def jwt(rng: random.Random) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return ".".join([part({"alg": "HS256", "typ": "JWT"}), part({"sub": chars(rng, ALNUM, 12)}), chars(rng, ALNUM, 43)])


TOKENS: dict[str, Callable[[random.Random], str]] = {
    "hugging face": lambda r: "hf" + "_" + chars(r, string.ascii_letters + "0", 34),
    "openai": lambda r: "sk" + "-" + chars(r, ALNUM, 48),
    "openai project": lambda r: "sk" + "-proj-" + chars(r, ALNUM + "_-", 74),
    "anthropic": lambda r: "sk" + "-ant-" + "api03-" + chars(r, ALNUM + "_-", 93),
    "aws id": lambda r: r.choice(["AK", "AS"]) + "IA" + chars(r, UPPER, 16),
    "github": lambda r: "gh" + r.choice("pousr") + "_" + chars(r, ALNUM, 36),
    "github fine": lambda r: "github" + "_pat_" + chars(r, ALNUM, 22) + "_" + chars(r, ALNUM, 59),
    "gitlab": lambda r: "glp" + "at-" + chars(r, ALNUM, 20),
    "google": lambda r: "AI" + "za" + chars(r, ALNUM + "_-", 35),
    "google oauth": lambda r: "ya" + "29." + chars(r, ALNUM, 60),
    "slack": lambda r: "xo" + "xb-" + "-".join([chars(r, UPPER, 11), chars(r, UPPER, 11), chars(r, ALNUM, 24)]),
    "nvidia": lambda r: "nv" + "api-" + chars(r, ALNUM + "_-", 64),
    "wandb": lambda r: "wandb" + "_v1_" + chars(r, ALNUM, 60),
    "stripe": lambda r: "sk" + "_live_" + chars(r, ALNUM, 24),
    "npm": lambda r: "np" + "m_" + chars(r, ALNUM, 36),
    "jwt": jwt,
    "gitlab runner": lambda r: "gl" + "rt-" + chars(r, ALNUM, 20),
    "slack app": lambda r: "xa" + "pp-1-" + chars(r, UPPER, 11) + "-" + chars(r, HEX, 40),
    "openrouter": lambda r: "sk" + "-or-v1-" + chars(r, HEX, 64),
    "google secret": lambda r: "GOC" + "SPX-" + chars(r, ALNUM + "_-", 28),
    "stripe restricted": lambda r: "rk" + "_live_" + chars(r, ALNUM, 24),
    "stripe webhook": lambda r: "wh" + "sec_" + chars(r, ALNUM, 32),
    "pypi": lambda r: "py" + "pi-AgEIcHlwaS5vcmc" + chars(r, ALNUM + "_-", 90),
    "docker": lambda r: "dc" + "kr_pat_" + chars(r, ALNUM + "_-", 27),
    "digitalocean": lambda r: "do" + "p_v1_" + chars(r, HEX, 64),
    "databricks": lambda r: "da" + "pi" + chars(r, HEX, 32),
    "sendgrid": lambda r: "S" + "G." + chars(r, ALNUM, 22) + "." + chars(r, ALNUM + "_-", 43),
    "replicate": lambda r: "r" + "8_" + chars(r, ALNUM, 37),
    "groq": lambda r: "gs" + "k_" + chars(r, ALNUM, 52),
    "perplexity": lambda r: "pp" + "lx-" + chars(r, ALNUM, 48),
    "xai": lambda r: "xa" + "i-" + chars(r, ALNUM, 80),
    "langsmith": lambda r: "ls" + "v2_pt_" + chars(r, HEX, 32) + "_" + chars(r, HEX, 10),
    "vault": lambda r: "hv" + "s." + chars(r, ALNUM, 90),
    "notion": lambda r: "nt" + "n_" + chars(r, ALNUM, 46),
    "fireworks": lambda r: "f" + "w_" + chars(r, ALNUM, 24),
    "runpod": lambda r: "rp" + "a_" + chars(r, UPPER, 40),
    "grafana": lambda r: "gl" + "sa_" + chars(r, ALNUM, 32) + "_" + chars(r, HEX, 8),
    "sentry": lambda r: "sn" + "trys_" + chars(r, ALNUM, 80),
    "atlassian": lambda r: "AT" + "ATT3" + chars(r, ALNUM, 180),
    "heroku": lambda r: "HR" + "KU-" + chars(r, ALNUM + "_-", 60),
    "postman": lambda r: "PM" + "AK-" + chars(r, HEX, 24) + "-" + chars(r, HEX, 34),
    "age": lambda r: "AGE-SECRET" + "-KEY-1" + chars(r, UPPER, 58),
}

# Where a token of a known shape turns up: every kind in every place.
PLACES = (
    "{}",
    "[2026-12-01 01:42:26 TP0] could not fetch the config with {}, giving up.",
    "curl -s https://example.org/v1/models?check={}&page=2",
    'the log says: {{"value": "{}", "n": 1}}',
    "git clone https://x:{}@example.org/team/model.git",
)

# Where the name gives a secret away that has no shape of its own: `{}` is the secret.
NAMED = (
    "server_args={{'model_path': '/models/a', 'api_key': '{}', 'admin_api_key': None}}",
    "server_args=ServerArgs(model_path='/models/a', api_key='{}', tp_size=8)",
    "python -m sglang.launch_server --model-path /models/a --api-key {} --tp-size 8",
    "python -m sglang.launch_server --admin-api-key={} --port 8000",
    "--ssl-keyfile /etc/tls/a.pem --ssl-keyfile-password '{}'",
    '{{"api_key": "{}", "port": 8000}}',
    '{{"line": "server_info: {{\\"api_key\\": \\"{}\\", \\"port\\": 8000}}"}}',
    "HF_TOKEN={} python train.py",
    "export WANDB_API_KEY={}",
    "AWS_SECRET_ACCESS_KEY={}",
    "Authorization: Bearer {}",
    "curl -H 'Authorization: Bearer {}' http://127.0.0.1:8000/v1/models",
    '{{"headers": {{"Authorization": "Bearer {}"}}}}',
    "Authorization: Basic {}",
    "X-Api-Key: {}",
    "password = {}",
    "password: '{}'",
    "POSTGRES_PASSWORD={} docker compose up",
    "postgresql+psycopg://sitrep:{}@db.example.org:5432/sitrep",
    "http://admin:{}@127.0.0.1:8000/health",
    "redis://:{}@cache:6379/0",
    "client_secret={}&grant_type=x",
    "http://127.0.0.1:8888/lab?token={}",
    "machine api.example.org login user password {}",
    "wandb: Using auth_token: {}",
    "AccountName=store;AccountKey={};EndpointSuffix=example.org",
    "curl -u admin:{} https://example.org/private",
    "['python3', '-m', 'server', '--api-key', '{}', '--port', '8000']",
    "the API key: {} was refused",
    "the password is {} for now",
    "os.environ['HF_TOKEN'] = '{}'",
    "- name: HF_TOKEN\n  value: {}",
    '{{"env": [{{"name": "HF_TOKEN", "value": "{}"}}]}}',
    "hf auth login --token {}",
    "sshpass -p {} ssh user@box",
    "mysql -u root -p{} models",
    'ssh box "export HF_TOKEN={}; nohup python -m sglang.launch_server > a.log 2>&1 &"',
    "non-default args: {{'port': 8000, 'api_key': ['{}']}}",
    '{{"api_keys": ["{}"], "n": 1}}',
    'secretKey: "{}"',
    "AZURE_OPENAI_API_KEY={}",
    "Ocp-Apim-Subscription-Key: {}",
    "Proxy-Authorization: Basic {}",
    "PRIVATE-TOKEN: {}",
    "x-goog-api-key: {}",
    "Authorization: token {}",
    "Set-Cookie: {}",
    "aws_secret_access_key = {}",
    "export AWS_SESSION_TOKEN={}",
    "Endpoint=sb://x/;SharedAccessKeyName=R;SharedAccessKey={}",
    "https://a.blob.core.windows.net/c?sv=2024&sig={}&se=1",
    "https://b.s3.amazonaws.com/k?X-Amz-Date=20260301&X-Amz-Signature={}",
    "https://maps.example.org/v1?lang=en&key={}",
    "https://discord.com/api/webhooks/123456789012345678/{}",
    "wandb: logging in with key {}",
    "wandb.login(key='{}', relogin=True)",
    "os.environ.setdefault('HF_TOKEN', '{}')",
    'client = OpenAI(api_key="{}", base_url="http://127.0.0.1:8000/v1")',
    "docker run --gpus all -e HF_TOKEN={} lmsysorg/sglang",
    "docker login -u team -p {} registry.example.org",
    "redis-cli -h cache -a {} ping",
    "//packages.example.org/:_authToken={}",
    "KAGGLE_KEY={}",
    "GITHUB_PAT={}",
    "NEPTUNE_API_TOKEN={}",
    "amqp://worker:{}@queue:5672/jobs",
    "mongodb+srv://app:{}@cluster.example.org/db",
    "Server=db;Uid=app;Pwd={};",
    "jdbc:mysql://db/x?user=app&password={}",
    "<password>{}</password>",
    "CREATE USER app IDENTIFIED BY '{}'",
    "ALTER USER app PASSWORD '{}'",
    "openssl rsa -passin pass:{} -in a.pem",
    "Incorrect API key provided: {}.",
    "--from-literal=token={}",
    "GOOGLE_APPLICATION_CREDENTIALS_JSON={}",
)


def private_key(rng: random.Random, kind: str) -> str:
    body = "\n".join(chars(rng, ALNUM + "+/", 64) for _ in range(12))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----"


def positives(seed: int = 20261201) -> Iterator[tuple[str, str]]:
    """Pairs of a text and the secret in it."""
    rng = random.Random(seed)
    for make in TOKENS.values():
        for place in PLACES:
            secret = make(rng)
            yield place.format(secret), secret
    for place in NAMED:
        for secret in (chars(rng, ALNUM, 24), chars(rng, HEX, 40), chars(rng, ALNUM + "_-", 44), chars(rng, ALNUM, 16)):
            yield place.format(secret), secret
    for kind in ("", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "):
        for text in ("{}", "the key file holds\n{}\nand nothing else", '{{"key": "{}"}}'):
            key = private_key(rng, kind)
            secret = key.replace("\n", "\\n") if text.startswith("{{") else key
            yield text.format(secret), secret.splitlines()[1] if "\n" in secret else secret[40:120]


def negatives(seed: int = 20261201) -> Iterator[str]:
    """Texts of every day that hold no secret."""
    rng = random.Random(seed)
    yield from PLAIN
    for _ in range(14):
        digest = hashlib.sha256(rng.randbytes(8)).hexdigest()
        yield f"commit {digest[:40]}"
        yield f"sha256:{digest}"
        yield f'{{"artifact": "bench.jsonl", "sha256": "{digest}"}}'
        yield f"GPU-{uuid.UUID(int=rng.getrandbits(128))}"
        yield f"request id {uuid.UUID(int=rng.getrandbits(128))} done"
        yield f"/models/{chars(rng, ALNUM, 12)}/snapshots/{digest[:40]}/model-00001-of-00064.safetensors"
        yield f'ETag: "{base64.urlsafe_b64encode(rng.randbytes(16)).decode()}"'
        yield f"cache_key={digest[:16]} routing-key: {digest[16:32]}"
        yield f"md5 {digest[:32]} of shard {rng.randrange(64)}"
        yield f"https://huggingface.co/org/model-{rng.randrange(99)}b/resolve/{digest[:40]}/config.json"
        yield (
            f"Decode batch, #running-req: {rng.randrange(9)}, #token: {rng.randrange(9999)}, token usage: "
            f"{rng.random():.2f}, accept len: 2.81, gen throughput (token/s): {rng.random() * 900:.2f}, #queue-req: 0"
        )
        yield f"run-{chars(rng, ALNUM, 8).lower()} wandb sync /data/wandb/run-20260301_140509-{chars(rng, ALNUM, 8).lower()}"
        yield f"data:image/png;base64,{base64.b64encode(rng.randbytes(96)).decode()}"
        yield f"/data/checkpoints/eagle3-{digest[:8]}/epoch_{rng.randrange(9)}-step_{rng.randrange(9999)}.log"
        yield f"https://example.org/page?key=name&sort=asc&id={rng.randrange(10**9)}#{digest[:12]}"
        yield f"trace_id={digest[:32]} span_id={digest[:16]} random_seed={rng.randrange(10**9)}"
        yield f"image: registry.example.org/team/sglang@sha256:{digest}"
        yield f"max_total_num_tokens={rng.randrange(10**6)}, chunked_prefill_size=8192, max_prefill_tokens=16384"


PLAIN = (
    "token usage: 0.04",
    "--max-total-tokens 8192",
    "--speculative-num-draft-tokens 4 --speculative-num-steps 3",
    "--tokenizer-path /x --tokenizer-mode auto --skip-tokenizer-init",
    "TOKENIZERS_PARALLELISM=false",
    "tokenizer_path='/models/kimi-k2.5-int4', tokenizer_mode='auto'",
    "'api_key': None, 'admin_api_key': None, 'ssl_keyfile': '/etc/tls/server-2026-a.pem'",
    '"api_key": null, "ssl_keyfile_password": null, "token": ""',
    "api_key='REDACTED'",
    '"watermark_key": "<redacted>"',
    "--api-key REDACTED --port 8000",
    "--api-key $KEY --port 8000",
    "HF_TOKEN=${HF_TOKEN} python train.py",
    'curl -H "Authorization: Bearer $SGLANG_KEY" http://127.0.0.1:8000/v1/models',
    "Authorization: Bearer ${BEARER_TOKEN}",
    "usage: launch_server [--api-key API_KEY] [--admin-api-key ADMIN_API_KEY]",
    "Unexpected token: expected a string",
    "eos_token: '<|im_end|>', bos_token: <s>, pad_token='[PAD]'",
    "eos_token='end_of_text_00017_marker'",
    "time_per_output_token: 12.5 ms, first token: 81 ms",
    "Prefill batch, #new-seq: 1, #new-token: 3, #cached-token: 0, token usage: 0.00, #pending-token: 0",
    "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 458681, K size: 28.00 GB, V size: 28.00 GB",
    "kv_bytes_per_token=131072",
    "weight_bytes per token, tokens per second",
    "public_key = a3f9c2d4e5f60718293a4b5c6d7e8f90",
    "http://127.0.0.1:8000/v1/models",
    "ssh://user@box",
    "ssh://user@box:2222/home/user",
    "git@github.com:org/repo.git",
    "tcp://10.0.0.1:29500",
    "mail to user@example.org: done",
    "Multi-thread loading shards:   0% Completed | 0/10 [00:00<?, ?it/s]",
    "hf_transfer is not installed; hf_xet-1.2.0 is",
    "--speculative-token-map /models/hot_tokens_32k.pt",
    "sk-learn, task-0123456789abcdef01234567, disk-1a2b3c4d5e6f7a8b9c0d1e2f",
    "AKIRA ASIAN key findings: the drafter is the lever",
    "NCCL_PROTO=LL NCCL_ALGO=Ring NCCL_P2P_LEVEL=SYS",
    "HF_TOKEN_PATH=/home/user/.cache/huggingface/token",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN=1",
    "SSH_AUTH_SOCK=/tmp/ssh-a/agent.12",
    "PWD=/data/eagle3 OLDPWD=/data",
    "keyboard: qwerty, monkey: 3, turnkey=yes",
    "the secret is out: 94.0 tok/s",
    "Bearer of bad news",
    "Basic authentication is off",
    "eyJust a word",
    "disable_token_check=true, require_password: false, num_secrets=0",
    "moonshotai/Kimi-K2.5, Qwen/Qwen3-235B-A22B-Instruct-2507-FP8, deepseek-ai/DeepSeek-V3.1",
    "--served-model-name Qwen3-30B-A3B-Instruct-2507",
    "Cookie policy: none",
    "tokenizer.json 7d2c0f6f, special_tokens_map.json",
    'File "/opt/sglang/srt/managers/tokenizer_manager.py", line 812, in handle_token',
    "api_keys: 3, secrets=[], tokens: ['a', 'b'], num_tokens=[17, 32]",
    "---------------Inter-Token Latency----------------",
    "-----Time per Output Token (excl. 1st token)------",
    "Output token throughput (tok/s):         388.22",
    "- name: MODEL\n  value: Kimi-K2.5",
    "mysql -u root -p models",
    "env -u HF_TOKEN python; read -s PASSWORD; echo $PASSWORD",
    "HF_TOKEN=$(cat ~/.cache/token) python train.py",
    "key: value, keys: [a, b]",
    "GPG_KEY=A035C8C19219BA821ECEA86B64E628F8D684696D",
    "CACHE_KEY=3f786850e387550fdab836ed7e6dc881de23001b, PUBLIC_KEY=ssh-ed25519",
    "monkey-patched turkey; author: A. Nobody; authenticate first; path=/x/patterns/pat.txt",
    "--auth none --pattern a1b2 --patience 3",
    "PATH=/usr/bin:/bin PATTERN=a1 COMPAT=1 PATIENCE=20",
    "unzip -P is not used; zip -r models.zip models",
    "redis-cli ping; docker login registry.example.org; mongosh --quiet",
    "password 'required', passphrase \"missing\"",
    "the pwd= of a shell; pwd=/data/x; cd $PWD",
    "mask-based and task-specific; disk-usage; desk-1",
    "nvapi is a library, hvs is a word, dapi too; SG.LANG; xai-grok",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B, meta-llama/Llama-3.3-70B-Instruct, nvidia/Kimi-K2.5-NVFP4",
    "fw_rev=12.8.1000 key-value store, ntn_ and rpa_ are prefixes",
    "base_key, sort_key=name, partition_key=2026-03-01T00",
    "Basic 401: authorization is required for /v1/models",
    'time_to_first_token_seconds_bucket{le="0.1"} 12',
    'sglang:prompt_tokens_total{model_name="/models/kimi"} 458681.0',
)

# In a program or a sentence these are no values; on a command line they may be.
PROSE = (
    "api_key = os.environ['SGLANG_KEY']",
    "token = get_token(path)",
    "password=args.password",
    "password: required",
    "the password is wrong, the api_key is not set",
    "the token is 5 characters long",
    "auth_token: missing",
    "api_key=self.api_key, token=self.token",
    "If --api-key is set, use it.",
    "Pass --api-key to the server and use Bearer authentication.",
    "If set, the --api-key is required; --admin-api-key too.",
)
