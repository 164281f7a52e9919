"""The tables of sandbox-service. Prefixed, since services may share a database."""

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

from ratchet_kit.sql import UtcDateTime, hold_columns, request_columns

metadata = MetaData()

batches = Table(
    "sandbox_batches",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("programs_total", Integer, nullable=False),
    Column("priority", String(16), nullable=False),
    Column("caller", Text, nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("create_time", UtcDateTime, nullable=False),
    Column("end_time", UtcDateTime),
    *request_columns(),
    Index("ix_sandbox_batches_caller", "caller", "id"),
)

chunks = Table(
    "sandbox_batch_chunks",
    metadata,
    Column("batch_id", ForeignKey(batches.c.id, ondelete="CASCADE"), primary_key=True),
    Column("first", Integer, primary_key=True, autoincrement=False),
    Column("size", Integer, nullable=False),
    Column("done", Boolean, nullable=False),
    *hold_columns(),
)

# As they were sent: ratchet.sandbox.v1.Program.
programs = Table(
    "sandbox_batch_programs",
    metadata,
    Column("batch_id", ForeignKey(batches.c.id, ondelete="CASCADE"), primary_key=True),
    Column("index", Integer, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
)

# As they are sent: ratchet.sandbox.v1.ExecutionItem. A row is written once and never changed: of two nodes that ran the
# same program, the second one's insert finds the key taken.
records = Table(
    "sandbox_batch_records",
    metadata,
    Column("batch_id", String(64), primary_key=True),
    Column("index", Integer, primary_key=True, autoincrement=False),
    Column("verdict", String(32), nullable=False),
    Column("content", LargeBinary, nullable=False),
    ForeignKeyConstraint(
        ["batch_id", "index"], ["sandbox_batch_programs.batch_id", "sandbox_batch_programs.index"], ondelete="CASCADE"
    ),
)
