"""Replace personal data in exported texts: `python examples/pii_example.py pages.jsonl clean.jsonl`.

Needs `pip install presidio-analyzer presidio-anonymizer`, and the first file from `docstore export --format jsonl`
without `--body`.  What has a form is found: addresses of e-mail, telephone and card numbers, IBANs, IP addresses.
Names of people are not: they need a language model, which presidio takes in place of the blank one here.  Headers and
addresses of servers are left out.
"""

import json
import sys
from collections import Counter
from pathlib import Path

import spacy
from presidio_analyzer import AnalyzerEngine
from presidio_analyzer.nlp_engine import SpacyNlpEngine
from presidio_anonymizer import AnonymizerEngine

ENTITIES = ["EMAIL_ADDRESS", "PHONE_NUMBER", "CREDIT_CARD", "IBAN_CODE", "IP_ADDRESS"]
SCORE = 0.4
PIECE_CHARACTERS = 100_000
"""Most characters that are analysed at once; a line is never cut."""


class NoModel(SpacyNlpEngine):
    """Cuts words without a model of a language."""

    def load(self) -> None:
        """Take blank rules of English for all texts."""
        self.nlp = {"en": spacy.blank("en")}


def pieces(text: str) -> list[str]:
    """Lines of a text, together up to PIECE_CHARACTERS."""
    together = [""]
    for line in text.splitlines(keepends=True):
        if len(together[-1]) + len(line) > PIECE_CHARACTERS:
            together.append("")
        together[-1] += line
    return together


def main(source: str, target: str) -> None:
    """Write the pages of one file, without personal data, into another."""
    engine = NoModel()
    engine.load()
    analyzer, anonymizer = AnalyzerEngine(nlp_engine=engine, supported_languages=["en"]), AnonymizerEngine()
    replaced: Counter[str] = Counter()

    def clean(text: str) -> str:
        made = []
        for piece in pieces(text):
            found = analyzer.analyze(piece, language="en", entities=ENTITIES, score_threshold=SCORE)
            result = anonymizer.anonymize(piece, found)
            replaced.update(item.entity_type for item in result.items)
            made.append(result.text)
        return "".join(made)

    with Path(source).open(encoding="utf-8") as lines, Path(target).open("w", encoding="utf-8") as output:
        for line in lines:
            page = json.loads(line)
            if "body_base64" in page:
                raise SystemExit(f"{source} has bodies, which would keep what texts lose; export it without --body")
            for name in ("headers", "ip", "notes", "markdown"):
                page.pop(name, None)
            page |= {name: clean(page[name]) for name in ("title", "text")}
            output.write(json.dumps(page, ensure_ascii=False) + "\n")
    print(dict(replaced))


if __name__ == "__main__":
    main(*sys.argv[1:])
