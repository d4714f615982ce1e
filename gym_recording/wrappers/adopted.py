"""A recorder's class that becomes a real wrapper of the environment's own library.

The class that people import belongs to no library, so that importing it imports none. Making an instance makes, once
per library, a class of the same name that also is that library's wrapper. What a library is, is the subclass's to say.
"""

from __future__ import annotations

import types
from importlib import import_module
from typing import Any

from ..errors import TraceError

_classes: dict[tuple[type, str], type] = {}


class Adopted:
    """A wrapper of whichever library its first argument comes from.

    Attributes:
        _library: the module of that library; only the classes that are made have it.
    """

    _library: types.ModuleType

    @staticmethod
    def _library_of(value: Any) -> types.ModuleType | None:
        """The module of the library that a value is an environment of, None if it is none."""
        raise NotImplementedError

    @staticmethod
    def _no_environment(found: Any) -> TraceError:
        """What is raised where there is none."""
        raise NotImplementedError

    @staticmethod
    def _bases_of(library: types.ModuleType) -> tuple[type, ...]:
        """The library's wrapper, and what must follow it."""
        raise NotImplementedError

    @classmethod
    def _methods_for(cls, base: type) -> dict[str, Any]:
        """Methods that the class has only because that wrapper has them; a subclass's own come before."""
        raise NotImplementedError

    @classmethod
    def _calls(cls) -> dict[str, Any]:
        """Methods that come before all: those that only call what a subclass has under an older name."""
        return {}

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if "_library" in cls.__dict__:
            return _new(cls)
        library = next(filter(None, map(cls._library_of, (*args, *kwargs.values()))), None)
        if library is None and Adopted in cls.__bases__:
            raise cls._no_environment(args[0] if args else None)
        return object.__new__(cls) if library is None else _new(_class_for(cls, library))

    def _adopt(self, env: Any) -> None:
        """Makes `self`, of a subclass that makes its environment itself, a wrapper of the library of `env`."""
        library = self._library_of(env)
        if library is None:  # also if it is another argument
            raise self._no_environment(env)
        if not hasattr(self, "_library"):
            self.__class__ = _class_for(type(self), library)

    def __reduce_ex__(self, protocol: Any) -> Any:
        plain = next(cls for cls in type(self).__mro__ if "_library" not in cls.__dict__)
        return _restore, (plain, self._library.__name__), self.__dict__.copy()


def _restore(cls: type[Adopted], library: str) -> Any:
    return _new(_class_for(cls, import_module(library)))


def _new(made: Any) -> Any:
    # Of the library: old gyms keep account of environments there.
    return super(Adopted, made).__new__(made)


def _class_for(cls: Any, library: types.ModuleType) -> Any:
    """`cls` as a wrapper of `library`."""
    key = (cls, library.__name__)
    if key not in _classes:
        bases = cls._bases_of(library)
        names = {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
        bases = (type("_Methods", (), cls._methods_for(bases[0])), *bases)
        members = {**names, **cls._calls(), "_library": library}
        _classes[key] = types.new_class(cls.__name__, (cls, *bases), {}, lambda namespace: namespace.update(members))
    return _classes[key]
