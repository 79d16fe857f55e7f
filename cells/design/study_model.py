"""The study file as types (20-interface, "Study file"): what a person writes, checked, unknown keys refused.

Units: seconds, MiB, tokens, decimal money as a string. `Money` keeps exact decimals; a float is refused so that nothing
is rounded in silence.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    model_validator,
)

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def _decimal(value: Any) -> Decimal:
    if isinstance(value, Decimal):
        return value
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise ValueError(f'expected a decimal number in quotes, as "0.50"; found {value!r}')
    try:
        number = Decimal(value)
    except InvalidOperation as error:
        raise ValueError(f'expected a decimal number in quotes, as "0.50"; found {value!r}') from error
    if not number.is_finite() or number < 0:
        raise ValueError(f"expected a finite amount that is not negative; found {value!r}")
    return number


Money = Annotated[Decimal, BeforeValidator(_decimal), PlainSerializer(str, return_type=str)]
Name = Annotated[str, Field(pattern=f"^{NAME.pattern}$")]
Positive = Annotated[int, Field(gt=0)]


class Section(BaseModel):
    """A table of the study file: unknown keys and sloppy types are errors; a read table does not change."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class StudySection(Section):
    """[study]"""

    name: Name
    seed: Annotated[int, Field(ge=0, lt=2**53)]
    tasks: Annotated[tuple[str, ...], Field(min_length=1, strict=False)]
    samples: Positive = 1
    tasks_without_control: Annotated[tuple[str, ...], Field(strict=False)] = ()


class LimitsSection(Section):
    """[limits]: of one cell; an arm or a task may only tighten."""

    clock: Literal["active", "wall"] = "active"
    wall_s: Annotated[float, Field(gt=0, strict=False)] = 600.0
    turns: Positive | None = None
    requests: Positive | None = None
    total_tokens: Positive | None = None
    cost: Money | None = None
    memory_mb: Annotated[int, Field(ge=64)] = 1024
    cpus: Annotated[float, Field(gt=0, strict=False)] = 1.0
    disk_mb: Annotated[int, Field(ge=8)] = 256
    disk_backing: Literal["memory", "file"] = "memory"
    pids: Annotated[int, Field(ge=16)] = 256
    verify_s: Annotated[float, Field(gt=0, strict=False)] = 120.0


class TighterLimits(Section):
    """Limits that an arm or a task sets: each may only be below the study's."""

    wall_s: Annotated[float, Field(gt=0, strict=False)] | None = None
    turns: Positive | None = None
    requests: Positive | None = None
    total_tokens: Positive | None = None
    cost: Money | None = None
    memory_mb: Annotated[int, Field(ge=64)] | None = None
    cpus: Annotated[float, Field(gt=0, strict=False)] | None = None
    disk_mb: Annotated[int, Field(ge=8)] | None = None
    pids: Annotated[int, Field(ge=16)] | None = None
    verify_s: Annotated[float, Field(gt=0, strict=False)] | None = None


class BudgetSection(Section):
    """[budget]: of the whole study."""

    cost: Money | None = None
    at_limit: Literal["pause", "end"] = "pause"


class Price(Section):
    """Prices per million tokens; a kind of token without a price costs what input costs, and the cost is unknown
    without usage.
    """

    input_per_mtok: Money
    output_per_mtok: Money
    cached_per_mtok: Money | None = None
    cache_write_per_mtok: Money | None = None
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")] = "USD"


class ModelSection(Section):
    """[models.NAME]: who answers. Keys come from the host's environment by name."""

    provider: Literal["scripted", "openai", "anthropic", "replay"]
    script: str | None = None
    base_url: Annotated[str, Field(pattern=r"^https?://[^/@?#\s]+(/[^@?#\s]*)?$")] | None = None
    model: str | None = None
    api_key_env: Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    max_concurrency: Positive | None = None
    requests_per_minute: Positive | None = None
    timeout_s: Annotated[float, Field(gt=0, strict=False)] = 600.0
    max_retries: Annotated[int, Field(ge=0, le=20)] = 5
    price: Price | None = None

    @model_validator(mode="after")
    def _complete(self) -> ModelSection:
        needs = {"scripted": ("script",), "openai": ("base_url", "model"), "anthropic": ("model",), "replay": ()}
        for key in needs[self.provider]:
            if getattr(self, key) is None:
                raise ValueError(f'a model with provider = "{self.provider}" needs the key `{key}`')
        if self.provider == "scripted" and (self.base_url or self.api_key_env):
            raise ValueError('a model with provider = "scripted" takes no base_url and no api_key_env')
        return self


class DetectorSection(Section):
    """[arms.NAME.detectors.DETECTOR]: turns of warm-up, every how many turns, how many actions at most."""

    warmup: Annotated[int, Field(ge=0)] = 0
    cadence: Positive = 1
    budget: Positive = 1
    action: Literal["note", "stop"] = "note"
    settings: dict[str, Any] = Field(default_factory=dict)


class ArmSection(Section):
    """[arms.NAME]: one fixed combination of harness, model, input limit and harness settings."""

    harness: Name
    model: str | None = None
    input_limit: Positive | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    limits: TighterLimits = TighterLimits()
    detectors: dict[str, DetectorSection] = Field(default_factory=dict)


class ControlsSection(Section):
    """[controls]: controls that run beside the arms and never enter a comparison."""

    oracle: bool = False
    nop: bool = False
    repeat: Positive = 1


class NoiseSection(Section):
    """[noise]: when a cell counts as contaminated by the machine."""

    max_cpu_throttled: Annotated[float, Field(ge=0, le=1, strict=False)] | None = None
    max_host_load_per_core: Annotated[float, Field(gt=0, strict=False)] | None = None


class ComparisonSection(Section):
    """[[comparisons]]: the analysis plan, frozen with the study."""

    control: str
    treatment: str
    outcomes: Annotated[tuple[Literal["resolved", "f2p_fraction"], ...], Field(min_length=1, strict=False)] = (
        "resolved",
    )
    cluster: Literal["repository", "task"] = "repository"


class AnalysisSection(Section):
    """[analysis]"""

    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    multiplicity: Literal["holm", "none"] = "holm"
    interval: Literal["auto", "cr2", "wild", "signflip", "percentile", "bca", "yuj"] = "auto"


class PolicySection(Section):
    """[policy]: permission is not integrity; an export checks both."""

    licence: str | None = None
    privacy: Literal["public", "internal", "restricted"] = "internal"
    retention: Annotated[str, Field(pattern=r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$")] | None = None
    """YYYY-MM-DD after which the evidence must go; an export refuses after it."""
    may_publish: bool = False


class StudyFile(Section):
    """The whole study file."""

    study: StudySection
    limits: LimitsSection = LimitsSection()
    budget: BudgetSection = BudgetSection()
    models: dict[Name, ModelSection] = Field(default_factory=dict)
    arms: Annotated[dict[Name, ArmSection], Field(min_length=1)]
    controls: ControlsSection = ControlsSection()
    noise: NoiseSection = NoiseSection()
    comparisons: Annotated[tuple[ComparisonSection, ...], Field(strict=False)] = ()
    analysis: AnalysisSection = AnalysisSection()
    policy: PolicySection = PolicySection()
