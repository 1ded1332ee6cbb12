"""say what next steps need"""

from __future__ import annotations

import sqlalchemy as sa
import sqlmodel.sql.sqltypes
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("next_step", schema=None) as batch_op:
        batch_op.add_column(sa.Column("needs", sqlmodel.sql.sqltypes.AutoString(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("next_step", schema=None) as batch_op:
        batch_op.drop_column("needs")
