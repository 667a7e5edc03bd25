"""Base of every part of attention: the members that initialisation, head removal and the documents read."""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from study.config import plugins
from study.config.mechanisms import AXES
from study.errors import InputError


class Part(nn.Module):
    """A part of attention. With an axis and a name it is one value of `study.config.mechanisms`, which has its facts.

    The defaults suit a part whose matrices have their fan-in as last axis and whose first axis is the heads'.
    """

    axis: ClassVar[str] = ""
    """The axis of a class and of its subclasses."""
    name: ClassVar[str] = ""
    """The value of that axis that the class implements."""
    facts: ClassVar[Any] = None
    """The value's row in the table of mechanisms."""
    formula: ClassVar[str] = ""
    """Equation of the part; for a value of an axis, that of its row."""
    fan_in: float | None = None
    """Fan-in of the part's matrices, which are drawn with variance 1/fan_in; None: the last axis of each."""
    stored: Mapping[str, tuple[tuple[int, ...], Any]] = {}
    """Matrix that is a block of a larger one ↦ (shape of the larger one, index of the block). The larger one is drawn,
    so that arms that store different blocks have equal initial values."""
    drawn: tuple[str, ...] = ()
    """Names of buffers with frozen random numbers, which are drawn like matrices."""
    _values: ClassVar[dict[tuple[str, str], type[Part]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in vars(cls):
            Part._values[cls.axis, cls.name] = cls
            cls.facts = AXES[cls.axis][cls.name]
            cls.formula = cls.facts.formula

    @classmethod
    def named(cls, name: str) -> type[Self]:
        """Return the class of a value of this axis. A user's own file is run, once in a process.

        Raises:
            InputError: the user's own file may not or cannot be run, or its class is of another kind.
        """
        if (cls.axis, name) not in Part._values:
            plugin = plugins.read(name)
            own = _run(plugin, cls)
            own.facts = AXES[own.axis].row(plugin.facts, f"{plugin.name}.facts")
            own.formula = own.facts.formula
            Part._values[cls.axis, name] = own
        found = Part._values[cls.axis, name]
        assert issubclass(found, cls)
        return found

    @classmethod
    def chosen(cls, config: Any, *given: Any, **more: Any) -> Self:
        """Build the value of this axis that a resolved configuration chooses, with the options of its row.

        Args:
            config: a site, or a model for an axis of models.
            given: arguments of every class of the axis.
            more: further ones, for classes that take them.
        """
        kind = cls.named(getattr(config, cls.axis))
        options = {option: getattr(config, option) for option in kind.facts.options} | more
        parameters = inspect.signature(kind).parameters
        every = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        return kind(*given, **{name: value for name, value in options.items() if every or name in parameters})

    def start(self) -> None:
        """Set initial values that are not random. Called after the random ones are drawn."""

    @torch.no_grad()
    def keep(self, heads: Sequence[int]) -> None:
        """Remove all other heads from the part's own parameters and buffers, in place."""
        for name, parameter in list(self.named_parameters(recurse=False)):
            if parameter.ndim:
                setattr(self, name, nn.Parameter(_rows(parameter, heads), requires_grad=parameter.requires_grad))
        for name, buffer in list(self.named_buffers(recurse=False)):
            setattr(self, name, _rows(buffer, heads) if buffer.ndim else buffer)


def _run(plugin: plugins.Plugin, base: type[Part]) -> type[Part]:
    """Return the class of a user's own file, which is run as a module of its own."""
    found = vars(_module(plugin)).get(plugin.name)
    if not isinstance(found, type) or not issubclass(found, base) or not found.axis:
        wanted = base.__name__ if base.axis else "Score or of another class of docs/own-mechanisms.md"
        raise InputError(
            f"{plugin.name}: expected a subclass of study.attention.{wanted}, got {found!r:.80}. Correct the class."
        )
    return found


def _module(plugin: plugins.Plugin) -> ModuleType:
    """Return the module that a user's own file makes. It is run once in a process."""
    plugins.check_allowed(plugin)
    module = ModuleType(plugins.MODULE + plugin.digest)
    if module.__name__ in sys.modules:
        return sys.modules[module.__name__]
    file = module.__file__ = plugin.path
    linecache.cache[file] = (len(plugin.text), None, plugin.text.splitlines(keepends=True), file)
    sys.modules[module.__name__] = module
    try:
        exec(compile(plugin.text, file, "exec"), vars(module))
    except (Exception, SystemExit) as problem:
        del sys.modules[module.__name__]
        where = plugins.line_of(problem) or plugin.name
        raise InputError(f"{where}: the file cannot be run ({type(problem).__name__}: {problem})") from problem
    return module


def _rows(tensor: Tensor, heads: Sequence[int]) -> Tensor:
    return tensor.detach()[list(heads)].clone()
