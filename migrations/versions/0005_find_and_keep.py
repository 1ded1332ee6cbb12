"""find what was told; name, pin and hand over checkpoints"""

from __future__ import annotations

import sqlalchemy as sa
import sqlmodel.sql.sqltypes
from alembic import op

import sitrepd.storage.types

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "search_entry",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("kind", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("session_id", sa.Integer(), nullable=True),
        sa.Column("at", sitrepd.storage.types.UTCDateTime(), nullable=False),
        sa.Column("state", sqlmodel.sql.sqltypes.AutoString(), nullable=True),
        sa.Column("name", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column("text", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column("scope", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_search_entry")),
    )
    op.create_index("ix_search_entry_kind_number", "search_entry", ["kind", "number"], unique=False)
    op.create_table(
        "search_state",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("event", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_search_state")),
    )
    if op.get_bind().dialect.name == "sqlite":
        # The daemon fills it with what was told before, at its first start with this schema.
        op.execute(
            "CREATE VIRTUAL TABLE search_text USING fts5(name, text, scope, content='search_entry', "
            "content_rowid='id', tokenize='unicode61 remove_diacritics 2', prefix='1 2 3')"
        )

    with op.batch_alter_table("checkpoint", schema=None) as batch_op:
        batch_op.add_column(sa.Column("name", sqlmodel.sql.sqltypes.AutoString(), nullable=True))
        batch_op.add_column(sa.Column("pinned", sa.Boolean(), nullable=True))
        batch_op.create_index(batch_op.f("ix_checkpoint_name"), ["name"], unique=False)

    with op.batch_alter_table("delivery", schema=None) as batch_op:
        batch_op.add_column(sa.Column("channel", sqlmodel.sql.sqltypes.AutoString(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("delivery", schema=None) as batch_op:
        batch_op.drop_column("channel")

    with op.batch_alter_table("checkpoint", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_checkpoint_name"))
        batch_op.drop_column("pinned")
        batch_op.drop_column("name")

    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TABLE search_text")
    op.drop_table("search_state")
    op.drop_index("ix_search_entry_kind_number", table_name="search_entry")
    op.drop_table("search_entry")
