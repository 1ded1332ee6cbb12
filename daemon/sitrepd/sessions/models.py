"""Sessions and what is told of the work itself: messages, directives, next steps, artifacts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field
from sqlalchemy import false
from sqlmodel import Field as Column
from sqlmodel import UniqueConstraint

from sitrepd.shapes import (
    Count,
    FactIn,
    FactOut,
    Flag,
    HostRef,
    Instant,
    Name,
    RefTo,
    Shape,
    Text,
    Whole,
    example,
    partial,
)
from sitrepd.storage.base import FactRow, Row, json_field, link, now_field, time_field

Role = Literal["user", "assistant", "system"]
StepState = Literal["todo", "doing", "done", "dropped"]
Needs = Literal["server", "nothing"]


class SessionRow(FactRow, table=True):
    __tablename__ = "session"

    name: str
    goal: str | None = None
    best_metric: str | None = None
    started_at: datetime = now_field()
    ended_at: datetime | None = time_field()


class SessionFields(Shape):
    name: Name = Field(description="What the session is called.")
    goal: Text | None = Field(None, description="What it is to reach.")
    best_metric: Name | None = Field(
        None, description="The metric that names the best run; output_throughput if absent."
    )
    started_at: Instant | None = Field(None, description="When it began; now if absent.")
    ended_at: Instant | None = Field(None, description="When it was closed; open if absent.")


class SessionCreate(SessionFields, FactIn):
    model_config = example({"name": "EAGLE-3 tuning", "goal": "Beat the baseline."})


class SessionPublic(SessionFields, FactOut):
    """A session; `session` is absent, since it belongs to none."""


SessionUpdate = partial(SessionFields, "SessionUpdate")


class Folder(Row, table=True):
    """A folder of work and the session it is tied to: a git common directory, or the folder itself."""

    __table_args__ = (UniqueConstraint("path"),)

    id: int | None = Column(default=None, primary_key=True)
    path: str
    session_id: int = Column(foreign_key="session.id", index=True)
    file: str | None = None
    at: datetime = now_field()


class Conversation(Row, table=True):
    """A client's own conversation id and the session it belongs to."""

    id: str = Column(primary_key=True)
    client: str | None = None
    session_id: int = Column(foreign_key="session.id", index=True)
    at: datetime = now_field()
    cwd: str | None = None
    transcript: str | None = None
    seen_at: datetime | None = time_field()
    ended_at: datetime | None = time_field()


class Message(FactRow, table=True):
    number: int = Column(index=True)
    role: str
    text: str
    synthetic: bool = False


class MessageFields(Shape):
    number: Count = Field(description="Its number in the agent's conversation.")
    role: Role
    text: Text = Field(description="Verbatim; may be empty.")
    synthetic: Flag = Field(False, description="True when the client made it, not a person.")


class MessageCreate(MessageFields, FactIn):
    model_config = example({"number": 4700, "role": "user", "text": ""})


class MessagePublic(MessageFields, FactOut):
    pass


MessageUpdate = partial(MessageFields, "MessageUpdate")


class Directive(FactRow, table=True):
    text: str
    message: int | None = None
    active: bool = True
    proposed: bool = Column(default=False, sa_column_kwargs={"server_default": false()})


class DirectiveFields(Shape):
    text: Text = Field(description="The user's wish, verbatim.", min_length=1, max_length=20_000)
    message: Count | None = Field(None, description="Number of the message that said it.")
    active: Flag = Field(True, description="False once it was taken back.")
    proposed: Flag = Field(False, description="A rule found it in a message, and nobody has confirmed it yet.")


class DirectiveCreate(DirectiveFields, FactIn):
    model_config = example({"text": "No hacks that cut precision."})


class DirectivePublic(DirectiveFields, FactOut):
    pass


DirectiveUpdate = partial(DirectiveFields, "DirectiveUpdate")


class NextStep(FactRow, table=True):
    __tablename__ = "next_step"

    text: str
    order: int | None = None
    after: list[str] = json_field()
    needs: str | None = None
    state: str = "todo"


class NextStepFields(Shape):
    text: Text = Field(min_length=1, description="What is to do.")
    order: Whole | None = Field(None, description="Its place; lower comes first.")
    after: list[Annotated[Text, RefTo(())]] = Field(
        default_factory=list, description="Ids of what it waits for: launches, next steps, benchmarks, sweeps."
    )
    needs: Needs | None = Field(
        None, description="server: one that is ready; nothing: it can be done while one loads. Not known if absent."
    )
    state: StepState = "todo"


class NextStepCreate(NextStepFields, FactIn):
    model_config = example({"text": "Benchmark the 3-step server.", "order": 1})


class NextStepPublic(NextStepFields, FactOut):
    pass


NextStepUpdate = partial(NextStepFields, "NextStepUpdate")


class Artifact(FactRow, table=True):
    path: str
    host_id: int | None = link("host")
    role: str | None = None
    note: str | None = None


class ArtifactFields(Shape):
    path: Text = Field(min_length=1, max_length=4096)
    host: HostRef | None = Field(None, description="The host it is on.")
    role: Text | None = Field(None, description="What it is for: draft model, server logs, …")
    note: Text | None = None


class ArtifactCreate(ArtifactFields, FactIn):
    model_config = example({"path": "/data/eagle3/4", "role": "draft model"})


class ArtifactPublic(ArtifactFields, FactOut):
    pass


ArtifactUpdate = partial(ArtifactFields, "ArtifactUpdate")
