"""seal samples into chunks"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

# What held the clocks down was told in words, and is a mask of bits as the driver tells it.
_BITS = {
    "power cap": 0x004,
    "hardware slowdown": 0x008,
    "thermal (software)": 0x020,
    "thermal (hardware)": 0x040,
    "power brake": 0x080,
    "board limit": 0x200,
    "reliability": 0x400,
}
_KEPT = "utilization, memory_used_bytes, power_w, temperature_c, sm_clock_mhz"


def upgrade() -> None:
    op.rename_table("gpu_sample", "gpu_sample_before")
    op.create_table(
        "gpu_sample",
        sa.Column("host_id", sa.Integer(), nullable=False),
        sa.Column("gpu", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("utilization", sa.Float(), nullable=True),
        sa.Column("memory_utilization", sa.Float(), nullable=True),
        sa.Column("memory_used_bytes", sa.BigInteger(), nullable=True),
        sa.Column("memory_reserved_bytes", sa.BigInteger(), nullable=True),
        sa.Column("power_w", sa.Float(), nullable=True),
        sa.Column("temperature_c", sa.Float(), nullable=True),
        sa.Column("memory_temperature_c", sa.Float(), nullable=True),
        sa.Column("sm_clock_mhz", sa.Float(), nullable=True),
        sa.Column("memory_clock_mhz", sa.Float(), nullable=True),
        sa.Column("clock_reasons", sa.BigInteger(), nullable=True),
        sa.Column("ecc_corrected", sa.BigInteger(), nullable=True),
        sa.Column("ecc_uncorrected", sa.BigInteger(), nullable=True),
        sa.Column("remapped_rows", sa.Integer(), nullable=True),
        sa.Column("pcie_replays", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["host_id"], ["host.id"], name=op.f("fk_gpu_sample_host_id_host")),
        sa.PrimaryKeyConstraint("host_id", "gpu", "at", name=op.f("pk_gpu_sample")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "gpu_chunk",
        sa.Column("host_id", sa.Integer(), nullable=False),
        sa.Column("gpu", sa.Integer(), nullable=False),
        sa.Column("tier", sa.Integer(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("end", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["host_id"], ["host.id"], name=op.f("fk_gpu_chunk_host_id_host")),
        sa.PrimaryKeyConstraint("host_id", "gpu", "tier", "start", "part", name=op.f("pk_gpu_chunk")),
        sqlite_with_rowid=False,
    )
    # The rows wait as they are: the daemon seals them one after another.
    mask = " + ".join(f"CASE WHEN throttle LIKE '%{word}%' THEN {bit} ELSE 0 END" for word, bit in _BITS.items())
    at = "CAST(ROUND((julianday(at) - 2440587.5) * 86400000.0) AS INTEGER)"
    op.execute(
        f"INSERT OR IGNORE INTO gpu_sample (host_id, gpu, at, {_KEPT}, clock_reasons) "
        f"SELECT host_id, gpu, {at}, {_KEPT}, {mask} FROM gpu_sample_before"
    )
    op.drop_table("gpu_sample_before")


def downgrade() -> None:
    """Samples are lost: chunks cannot be read by what came before."""
    op.drop_table("gpu_chunk")
    op.drop_table("gpu_sample")
    op.create_table(
        "gpu_sample",
        sa.Column("host_id", sa.Integer(), nullable=False),
        sa.Column("gpu", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.Column("utilization", sa.Float(), nullable=True),
        sa.Column("memory_used_bytes", sa.BigInteger(), nullable=True),
        sa.Column("power_w", sa.Float(), nullable=True),
        sa.Column("temperature_c", sa.Float(), nullable=True),
        sa.Column("sm_clock_mhz", sa.Float(), nullable=True),
        sa.Column("throttle", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["host_id"], ["host.id"], name=op.f("fk_gpu_sample_host_id_host")),
        sa.PrimaryKeyConstraint("host_id", "gpu", "at", name=op.f("pk_gpu_sample")),
    )
