"""Texts as LaTeX: ASCII that needs no package."""

from __future__ import annotations

import textwrap
import unicodedata

from study.errors import shown

HEADING = 14
"""Letters in a line of a column's heading."""
ACCENTS = dict(
    zip("\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0327", "`'^~=u.\"rHvc", strict=True)
)
"""Combining mark ↦ letter of its command."""
CHARACTERS = dict(
    line.split(maxsplit=1)
    for line in r"""
\ \textbackslash{}
~ \textasciitilde{}
^ \textasciicircum{}
& \&
% \%
$ \$
# \#
_ \_
{ \{
} \}
[ {[}
] {]}
* $^{*}$
< $<$
> $>$
| $|$
" {''}
± $\pm$
− $-$
× $\times$
÷ $\div$
· $\cdot$
√ $\surd$
∞ $\infty$
≤ $\leq$
≥ $\geq$
≠ $\neq$
≈ $\approx$
∼ $\sim$
∈ $\in$
∂ $\partial$
∇ $\nabla$
∑ $\sum$
→ $\to$
← $\leftarrow$
↑ $\uparrow$
↓ $\downarrow$
↦ $\mapsto$
⊤ $\top$
° $^{\circ}$
′ $'$
½ $\frac{1}{2}$
¼ $\frac{1}{4}$
¾ $\frac{3}{4}$
⁰ $^{0}$
¹ $^{1}$
² $^{2}$
³ $^{3}$
⁴ $^{4}$
⁵ $^{5}$
⁶ $^{6}$
⁷ $^{7}$
⁸ $^{8}$
⁹ $^{9}$
⁺ $^{+}$
⁻ $^{-}$
ⁿ $^{n}$
₀ $_{0}$
₁ $_{1}$
₂ $_{2}$
₃ $_{3}$
₄ $_{4}$
₅ $_{5}$
₆ $_{6}$
₇ $_{7}$
₈ $_{8}$
₉ $_{9}$
ᵢ $_{i}$
ⱼ $_{j}$
α $\alpha$
β $\beta$
γ $\gamma$
δ $\delta$
ε $\varepsilon$
ζ $\zeta$
η $\eta$
θ $\theta$
κ $\kappa$
λ $\lambda$
μ $\mu$
µ $\mu$
ν $\nu$
ξ $\xi$
π $\pi$
ρ $\rho$
σ $\sigma$
τ $\tau$
φ $\varphi$
χ $\chi$
ψ $\psi$
ω $\omega$
Γ $\Gamma$
Δ $\Delta$
Θ $\Theta$
Λ $\Lambda$
Π $\Pi$
Σ $\Sigma$
Φ $\Phi$
Ψ $\Psi$
Ω $\Omega$
– --
— ---
… \ldots{}
‘ `
’ '
“ ``
” {''}
« $\ll$
» $\gg$
§ \S{}
¶ \P{}
† \dag{}
‡ \ddag{}
ß \ss{}
æ \ae{}
Æ \AE{}
œ \oe{}
Œ \OE{}
ø \o{}
Ø \O{}
ł \l{}
Ł \L{}
ı \i{}
""".strip().splitlines()
)
"""Character ↦ its LaTeX, a line each."""


def escaped(text: str) -> str:
    """Return a text as LaTeX that prints the same, in ASCII and one line."""
    line = unicodedata.normalize("NFC", shown(" ".join(text.split())))
    letters = "".join(CHARACTERS.get(character) or _letter(character) for character in line)
    return letters.replace("}$$^{", "")  # one superscript of several characters


def heading(text: str, side: str) -> str:
    r"""Return the heading of a column in lines one below another: `\shortstack[r]{NLL per\\sentence}`."""
    lines = r" \\ ".join(map(escaped, textwrap.wrap(text, HEADING)))
    return rf"\shortstack[{side}]{{{lines}}}"


def _letter(character: str) -> str:
    """Return a letter with the commands of its accents; of a letter that LaTeX lacks, its number in Unicode."""
    letter, *marks = list(unicodedata.normalize("NFD", character))
    if not letter.isascii() or not ACCENTS.keys() >= {*marks}:
        return f"{{[}}U+{ord(character):04X}{{]}}"
    for mark in marks:
        letter = rf"\{ACCENTS[mark]}{{{letter}}}"
    return letter
