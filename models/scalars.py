"""Scalar types of the wire form: frozen base class, names, integer amounts with their ranges."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

MAX_NODES = 131_072
"""Most nodes of one snapshot, after hostlists are expanded."""
MAX_GANGS = 100_000
"""Most running and most pending gangs of one snapshot."""


_set = object.__setattr__


class Frozen(BaseModel):
    """Base of every wire object: immutable, unknown fields rejected, no NaN or infinity."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        validate_by_name=True,
        serialize_by_alias=True,
        hide_input_in_errors=False,
    )

    @classmethod
    def trusted(cls, **fields: Any) -> Self:
        """An object of all its fields, in their order, known to be valid and its own: nothing is tested or copied.

        For answers with thousands of entries; as pydantic's `model_construct`, which takes longer than validation.
        """
        made = cls.__new__(cls)
        _set(made, "__dict__", fields)
        _set(made, "__pydantic_fields_set__", set(fields))
        _set(made, "__pydantic_extra__", None)
        _set(made, "__pydantic_private__", None)
        return made


Name = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[^\x00-\x1f\x7f]+$")]
Gpus = Annotated[int, Field(strict=True, ge=0, le=4_096)]
CpuMilli = Annotated[int, Field(strict=True, ge=0, le=10**9)]
MemoryMib = Annotated[int, Field(strict=True, ge=0, le=10**10)]
Amount = Annotated[int, Field(strict=True, ge=0, le=10**10)]
Members = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
Weight = Annotated[int, Field(strict=True, ge=0, le=1_000_000)]
Priority = Annotated[int, Field(strict=True, ge=-(2**31), le=2**31 - 1)]
Instant = Annotated[int, Field(strict=True, ge=0, le=10**11)]
"""Seconds since the epoch."""
Ending = Annotated[int, Field(strict=True, ge=0, le=2 * 10**11)]
"""An instant at which a gang ends: an `Instant` and some durations later."""
Moment = Annotated[int, Field(strict=True, ge=0)]
"""An instant that a plan states: it may lie beyond the range of those in a snapshot."""
Seconds = Annotated[int, Field(strict=True, ge=0, le=10**9)]
"""A duration in seconds."""
Labels = dict[Name, Annotated[str, Field(max_length=253)]]
"""Label key → value."""


def _beside_built_in(resources: dict[str, int]) -> dict[str, int]:
    for name in ("gpus", "cpu_milli", "memory_mib"):
        if name in resources:
            raise ValueError(f"resource {name!r} is a field of its own, beside `resources`; other names are allowed")
    return resources


Resources = Annotated[dict[Name, Amount], AfterValidator(_beside_built_in)]
"""Extended resource name → integer amount."""


def empty() -> Any:
    """An empty dict as a field's default. Given as `{}`, pydantic would deep-copy it for every object."""
    return Field(default_factory=dict, json_schema_extra={"default": {}})
