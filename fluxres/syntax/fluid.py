"""Job ids as text: `ƒuZZybuNNy`, `0017.e9fb.8df1.6c2e`, `6731191091817518` (Flux RFC 19).

An id is 64 bits: milliseconds since the instance began, the generator that made it (usually a rank), and a
sequence number.  Records, logs and URLs name jobs by this text, so the same id must be found in any of its forms. Unlike
flux-core, this detects an F58 that does not fit in 64 bits. The form of words needs a table of 1,626 words from the package
mnemonicode (extra ``words``); the emoji form is base 576 over the symbols of the RFC.
"""

from __future__ import annotations

import re
from types import ModuleType
from typing import Final, Literal, NamedTuple

from fluxres.documents.document import excerpt, shown
from fluxres.errors import FluxresError, InputError, UsageError

Form = Literal["dec", "hex", "dothex", "kvs", "f58", "f58plain", "words", "emoji"]

ID_BITS: Final = 64
GENERATOR_BITS: Final = 14
_TIMESTAMP_BITS, _SEQUENCE_BITS = 40, 10
_ALPHABET: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_F58_DIGITS_MAX: Final = 12
_SYMBOLS_MAX: Final = 7
SYMBOLS: Final = (
    "😃😄😁😆😅😂😉😊😍😘😚😋😜😝😏😒😌😔😪😷😵😲😳😨😰😥😢😭😱😖😣😞😓😩😫😤😡😠👿💀💩👹👺👻👽👾😺😸"
    "😹😻😼😽🙀😿😾🙈🙉🙊💌💘💝💖💗💓💞💕💟💔💛💚💙💜💋💯💢💥💫💦💨💬💤👋👌👈👉👆👇👍👎👊👏🙌👐🙏💅💪"
    "👂👃👀👅👄👶👦👧👱👨👩👴👵🙍🙎🙅🙆💁🙋🙇👮💂👷👸👳👲👰👼🎅💆💇🚶🏃💃👯🏂🏄🏊🛀👫💏💑👪👤👣🐵🐒🐶"
    "🐩🐺🐱🐯🐴🐎🐮🐷🐗🐽🐑🐫🐘🐭🐹🐰🐻🐨🐼🐾🐔🐣🐤🐥🐦🐧🐸🐢🐍🐲🐳🐬🐟🐠🐡🐙🐚🐌🐛🐜🐝🐞💐🌸💮🌹🌺🌻"
    "🌼🌷🌱🌴🌵🌾🌿🍀🍁🍂🍃🍄🍇🍈🍉🍊🍌🍍🍎🍏🍑🍒🍓🍅🍆🌽🌰🍞🍖🍗🍔🍟🍕🍳🍲🍱🍘🍙🍚🍛🍜🍝🍠🍢🍣🍤🍥🍡"
    "🍦🍧🍨🍩🍪🎂🍰🍫🍬🍭🍮🍯🍵🍶🍷🍸🍹🍺🍻🍴🔪🌏🗾🌋🗻🏠🏡🏢🏣🏥🏦🏨🏩🏪🏫🏬🏭🏯🏰💒🗼🗽🌁🌃🌄🌅🌆🌇"
    "🌉🎠🎡🎢💈🎪🚃🚄🚅🚇🚉🚌🚑🚒🚓🚕🚗🚙🚚🚲🚏🚨🚥🚧🚤🚢💺🚀🕛🕐🕑🕒🕓🕔🕕🕖🕗🕘🕙🕚🌑🌓🌔🌕🌙🌛🌟🌠"
    "🌌🌀🌈🌂🔥💧🌊🎃🎄🎆🎇🎈🎉🎊🎋🎍🎎🎏🎐🎑🎀🎁🎫🏆🏀🏈🎾🎳🎣🎽🎿🎯🔫🎱🔮🎮🎰🎲🃏🀄🎴🎭🎨👓👔👕👖👗"
    "👘👙👚👛👜👝🎒👞👟👠👡👢👑👒🎩🎓💄💍💎🔊📢📣🔔🎼🎵🎶🎤🎧📻🎷🎸🎹🎺🎻📱📲📞📟📠🔋🔌💻💽💾💿📀🎥🎬"
    "📺📷📹📼🔍🔎💡🔦🏮📔📕📖📗📘📙📚📓📒📃📜📄📰📑🔖💰💴💵💸💳💹📧📨📩📤📥📦📫📪📮📝💼📁📂📅📆📇📈📉"
    "📊📋📌📍📎📏📐🔒🔓🔏🔐🔑🔨💣🔧🔩🔗📡💉💊🚪🚽🚬🗿🏧🚹🚺🚻🚼🚾🚫🚭🔞🔃🔙🔚🔛🔜🔝🔯🔼🔽🎦📶📳📴💱💲"
    "🔱📛🔰🔟🔠🔡🔢🔣🔤🆎🆑🆒🆓🆔🆕🆖🆗🆘🆙🆚🈁🈶🈯🉐🈹🈚🈲🉑🈸🈴🈳🈺🈵🔴🔵🔶🔷🔸🔹🔺🔻💠🔘🔳🔲🏁🚩🎌"
)
"""The symbols of emoji in the order of their values (RFC 19, `data/spec_19/basemoji.h`)."""
_VALUES: Final = {symbol: value for value, symbol in enumerate(SYMBOLS)}
_DOTHEX = re.compile(r"(?:job\.)?([0-9a-fA-F]{1,4})\.([0-9a-fA-F]{1,4})\.([0-9a-fA-F]{1,4})\.([0-9a-fA-F]{1,4})")
_HEX = re.compile(r"0x0*([0-9a-fA-F]{1,16})")
_DEC = re.compile(r"0*([0-9]{1,20})")
#: two halves of 32 bits, the low one first, of three words each
_WORDS = re.compile(r"(?:[a-z]+-){2}[a-z]+--(?:[a-z]+-){2}[a-z]+")


class Parts(NamedTuple):
    """The fields of an id."""

    timestamp_ms: int
    generator: int
    sequence: int


def decode(text: str, form: Form | None = None) -> int:
    """The id of a text.

    Args:
        form: the only form to accept; None accepts any. Blanks at both ends are ignored.

    Errors: InputError for anything else, including ids beyond 64 bits. Source: RFC 19.

    >>> decode("ƒuZZybuNNy"), decode("f2"), decode(" 0x4d2 "), decode("job.0.0.0.39"), decode("😆🐻")
    (6731191091817518, 1, 1234, 57, 1888)
    """
    word = text.strip()
    found = form or _form(word)
    if found in ("f58", "f58plain"):
        number = _f58(word)
    elif found in ("dothex", "kvs"):
        groups = _DOTHEX.fullmatch(word)
        exact = groups and (form is None or word.startswith("job.") == (form == "kvs"))
        number = int("".join(group.zfill(4) for group in groups.groups()), 16) if groups and exact else None
    elif found == "hex":
        digits = _HEX.fullmatch(word)
        number = int(digits[1], 16) if digits else None
    elif found == "words":
        number = _of_words(word)
    elif found == "emoji":
        number = _of_symbols(word)
    else:
        digits = _DEC.fullmatch(word)
        number = int(digits[1]) if digits else None
    if number is None or number >> ID_BITS:
        raise _refused(text)
    return number


def encode(job_id: int, form: Form = "f58") -> str:
    """An id as text.

    Args:
        form: `f58` begins with ƒ, `f58plain` with f; `kvs` is `job.` and dothex; `words` needs mnemonicode

    Errors: UsageError for an id that does not fit in 64 bits, and for `words` without mnemonicode.

    >>> encode(6731191091817518), encode(57, "f58plain"), encode(57, "kvs"), encode(57, "hex"), encode(1888, "emoji")
    ('ƒuZZybuNNy', 'fz', 'job.0000.0000.0000.0039', '0x39', '😆🐻')
    """
    if not 0 <= job_id < 1 << ID_BITS:
        raise UsageError(f"job id: expected 64 bits, got {shown(job_id)}")
    if form == "dec":
        return str(job_id)
    if form == "hex":
        return hex(job_id)
    if form == "words":
        text: str = _mnemonicode().mnformat(job_id.to_bytes(ID_BITS // 8, "little"))
        return text
    if form in ("dothex", "kvs"):
        dotted = ".".join(f"{job_id >> shift & 0xFFFF:04x}" for shift in (48, 32, 16, 0))
        return f"job.{dotted}" if form == "kvs" else dotted
    if form == "emoji":
        return _in_base(job_id, SYMBOLS)
    return ("f" if form == "f58plain" else "ƒ") + _in_base(job_id, _ALPHABET)


def is_name(job: str) -> bool:
    """Whether this is an id as instances write it, and so may be the name of a job of one.

    >>> is_name("ƒA"), is_name("fA"), is_name("j1")
    (True, False, False)
    """
    try:
        return encode(decode(job)) == job
    except FluxresError:
        return False


def split(job_id: int) -> Parts:
    """The fields of an id.

    >>> split(20703087621)
    Parts(timestamp_ms=1234, generator=3, sequence=5)
    """
    rest, sequence = divmod(job_id, 1 << _SEQUENCE_BITS)
    timestamp_ms, generator = divmod(rest, 1 << GENERATOR_BITS)
    return Parts(timestamp_ms, generator, sequence)


def join(parts: Parts) -> int:
    """The id of these fields. Errors: UsageError for a field that does not fit its bits.

    >>> join(Parts(1234, 3, 5))
    20703087621
    """
    for name, value, bits in zip(Parts._fields, parts, (_TIMESTAMP_BITS, GENERATOR_BITS, _SEQUENCE_BITS), strict=True):
        if not 0 <= value < 1 << bits:
            raise UsageError(f"job id: expected {name} of {bits} bits, got {shown(value)}")
    return parts.timestamp_ms << (GENERATOR_BITS + _SEQUENCE_BITS) | parts.generator << _SEQUENCE_BITS | parts.sequence


def _form(word: str) -> Form:
    """The form of a text, tested in the RFC's order."""
    if "." in word:
        return "dothex"
    if "-" in word:
        return "words"
    if word.startswith(("ƒ", "f")):
        return "f58"
    if "\U0001f000" <= word[:1] < "\U00020000":  # bytes F0 9F
        return "emoji"
    return "hex" if word.startswith("0x") else "dec"


def _f58(word: str) -> int | None:
    digits = word[1:]
    if not word.startswith(("ƒ", "f")) or not digits or len(digits) > _F58_DIGITS_MAX:
        return None
    number = 0
    for digit in digits:
        value = _ALPHABET.find(digit)
        if value < 0:
            return None
        number = number * len(_ALPHABET) + value
    return number


def _of_symbols(word: str) -> int | None:
    values = [_VALUES.get(symbol) for symbol in word[: _SYMBOLS_MAX + 1]]
    number = 0
    for value in values:
        if value is None:
            return None
        number = number * len(SYMBOLS) + value
    return number if 0 < len(values) <= _SYMBOLS_MAX else None


def _in_base(number: int, digits: str) -> str:
    text = ""
    while number or not text:
        number, digit = divmod(number, len(digits))
        text = digits[digit] + text
    return text


def _of_words(words: str) -> int | None:
    if not _WORDS.fullmatch(words):
        return None
    parse = _mnemonicode().mnparse
    try:
        halves: list[bytes] = [parse(half) for half in words.split("--")]
    except ValueError:  # an unknown word
        return None
    # Three words may also encode three bytes, or more than four.
    return int.from_bytes(b"".join(halves), "little") if [len(half) for half in halves] == [4, 4] else None


def _mnemonicode() -> ModuleType:
    try:
        import mnemonicode
    except ImportError:
        raise UsageError("job id: words need the package mnemonicode", hint="pip install mnemonicode") from None
    module: ModuleType = mnemonicode
    return module


def _refused(text: str) -> InputError:
    return InputError(
        f"expected a job id of 64 bits, got {excerpt(text)}",
        where="job id",
        hint="as ƒ and base 58, decimal, 0x and hex, four groups of hex with dots, six words, or up to seven emoji",
    )
