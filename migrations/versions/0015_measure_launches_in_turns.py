"""measure launches in turns"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("benchmark_job", schema=None) as batch_op:
        batch_op.add_column(sa.Column("turns", sa.JSON(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("benchmark_job", schema=None) as batch_op:
        batch_op.drop_column("turns")
