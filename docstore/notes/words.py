"""Annotators of texts: the language, the key phrases, the names of lists, and a class that examples teach.

Words are those of `dedup.kernel.words`, by which pages are compared, for every script.

*Key phrases* (Matsuo and Ishizuka 2004): a term is important if it occurs together with some of the page's frequent
terms more often than by chance.  Terms are words and sequences of up to four words that occur three times (twice in a
short text).  Frequent terms of the same sentences are one cluster.  The weight of a term is the sum over the clusters
of (observed - expected)^2 / expected, without its largest part.  A phrase does not begin or end with a stop word; stop
words are the most frequent words of the store's pages in the language, and the list of Stopwords ISO for the language
of the page: the declared one, else the one whose list has most of its words.  Japanese is written in several scripts,
so there a sequence of one script is a word: no phrase begins or ends inside one, with Hiragana, or with a single
character, which may be the stem of a verb.
Simpler here than in the original: words are not stemmed, frequent terms are clustered by mutual information alone, and
the expected value is counted in sentences.

*Entities*: at each word the longest name of a list that begins there; a name inside a longer one does not count.  The
focus of a page is one of them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from blake3 import blake3

from docstore.dedup.kernel import Kernel, words
from docstore.model.capture import LANG_NOTE, NOTE_FAMILY, TEXT_CHECKSUM, decode_note
from docstore.model.errors import InvalidArgument, missing_extra
from docstore.model.keys import shown_url
from docstore.model.types import ReadSpec
from docstore.notes.annotate import GROUP, Annotator, Fields
from docstore.reading.documents import Document
from docstore.text.finding import is_unspaced

if TYPE_CHECKING:
    from docstore.attach import Store

# --- lang

LANG_CHARACTERS: Final = 2_000
"""Only this many characters of a text are classified."""


def language(_store: Store, _lists: Mapping[str, Path]) -> Annotator:
    """`lang`: the language of a text, as ISO 639-1, with its probability; needs the extra `lang`."""
    try:
        from py3langid import langid
    except ImportError as error:
        raise missing_extra("the annotator lang", "lang", error) from error
    identifier = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)

    def of_document(document: Document) -> Fields | None:
        text = " ".join(filter(None, (document.title, document.text)))[:LANG_CHARACTERS]
        if not any(map(str.isalpha, text)):
            return None
        lang, score = identifier.classify(text)
        return {"lang": lang, "score": round(float(score), 3)}

    return Annotator(LANG_NOTE, "1", of_document)


# --- keyphrases

MAX_PHRASES: Final = 10
MAX_WORDS: Final = 5_000
"""Only this many words of a text are read."""
LONGEST_PHRASE: Final = 4
SHORT_TEXT_WORDS: Final = 300
FREQUENT_TERMS: Final = 30
FREQUENT_SHARE: Final = 0.3
"""The frequent terms are the first ones that make up this share of all words, at most FREQUENT_TERMS."""
LEAST_INFORMATION: Final = log(2)
"""Two frequent terms with more mutual information are in one cluster."""
SAMPLE_PAGES: Final = 2_000
STOP_SHARE: Final = 0.15
"""A stop word is in at least this share of the pages of its language."""
MAX_STOP_WORDS: Final = 400
LEAST_PAGES: Final = 10
"""In a store of fewer pages of a language a word that most of them have may be their subject."""
LISTED_LANGUAGES: Final = ("ar", "bn", "hi", "ko")
"""Their words have many forms, of which each is rare.  No word of other languages is written in the same way, but for
languages with the script and the stop words of one of these, so the lists hold for every page."""
GUESSED_CHARACTERS: Final = 2_000
_SENTENCE: Final = re.compile(r"[.!?;](?=\s)|[。！？।॥؟۔…\n]+")
_KANA: Final = re.compile("[\u3041-\u3096\u30a1-\u30fa\uff66-\uff9d]")
_CHUNK: Final = re.compile("[\\w\u3099\u309a\uff9e\uff9f]+")


def keyphrases(store: Store, _lists: Mapping[str, Path]) -> Annotator:
    """`keyphrases`: the key phrases of a text with their weights, the best first."""
    stop: dict[str, frozenset[str]] = {}

    def of_document(document: Document) -> Fields | None:
        if not stop:
            stop.update(stop_words(store))
        text = document.text or ""
        lang = _primary(document.newest.lang or "")
        listed = listed_stop_words((lang,), is_joined=True) or _guessed_stop_words(text)
        phrases = key_phrases(text, listed | (stop.get(lang) or stop[""]))
        return {"phrases": [[phrase, round(weight, 1)] for phrase, weight in phrases]} if phrases else None

    return Annotator("keyphrases", "3", of_document)


def stop_words(store: Store) -> dict[str, frozenset[str]]:
    """Stop words by language, from a sample of the store and the lists; those of all languages under "".

    The sample is chosen by a hash of the row key, so that two runs choose the same pages.
    """
    pages = int(store.stats()["totals"].get("urls", 0))
    counts: dict[str, Counter[str]] = {"": Counter()}
    sizes: Counter[str] = Counter()
    chosen = _sample(store, max(1, -(-pages // SAMPLE_PAGES)))
    while group := list(islice(chosen, GROUP)):
        documents = store.get_many([url for url, _ in group], families=("text",))
        for (_, noted_lang), document in zip(group, documents, strict=True):
            if document is None or not document.text:
                continue
            distinct = set(_features(document.text))
            for lang in {"", _primary(noted_lang or document.newest.lang or "")}:
                counts.setdefault(lang, Counter()).update(distinct)
                sizes[lang] += 1
    listed = frozenset(word for word in listed_stop_words(LISTED_LANGUAGES) if not word.isascii())
    return {lang: _frequent(counts[lang], sizes[lang]) | listed for lang in counts}


@lru_cache(maxsize=64)
def listed_stop_words(languages: tuple[str, ...], *, is_joined: bool = False) -> frozenset[str]:
    """The stop words of Stopwords ISO that are one word, without its numbers and signs; none of unknown languages.

    With `is_joined` also those of several characters of a script without blanks, each of which is a word.
    """
    from stopwordsiso import has_lang, stopwords  # reads lists of 57 languages

    split = (words(word) for word in stopwords([lang for lang in languages if has_lang(lang)]))
    return frozenset(
        "".join(word) for word in split if len(word) == 1 or (is_joined and all(is_unspaced(one[0]) for one in word))
    )


def _guessed_stop_words(text: str) -> frozenset[str]:
    """The list of the language that has most words of the beginning of a text; the English one if none has more."""
    from stopwordsiso import langs

    counts = Counter(words(text[:GUESSED_CHARACTERS]))
    lists = [listed_stop_words((lang,), is_joined=True) for lang in ("en", *sorted(langs()))]
    return max(lists, key=lambda listed: sum(count for word, count in counts.items() if word in listed))


def _sample(store: Store, step: int) -> Iterator[tuple[str, str]]:
    """URL of one page in `step`, with the language of its note."""
    for row in store.cells.scan(
        spec=ReadSpec(("dedup", NOTE_FAMILY), versions=1), qualifier_regex="text_checksum|lang"
    ):
        if int.from_bytes(blake3(row.row_key).digest(4), "big") % step == 0:
            values = {cell[:2]: cell.value for cell in row.cells}
            if values.get(TEXT_CHECKSUM):
                yield row.url, str(decode_note(values.get((NOTE_FAMILY, LANG_NOTE.encode()), b"")).get("lang", ""))


def _frequent(counts: Counter[str], pages: int) -> frozenset[str]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    most = min(MAX_STOP_WORDS, len(ordered) // 20) if pages >= LEAST_PAGES else 0
    return frozenset(word for word, count in ordered[:most] if count >= max(2, STOP_SHARE * pages))


def _primary(lang: str) -> str:
    return lang.strip().lower().partition("-")[0]


def topic_phrases(text: str, lang: str) -> list[str]:
    """The key phrases of a part of a page, the best first; stop words are the listed ones of its language.

    Args:
        text: of the part.
        lang: language tag of the page; English if it is "".
    """
    return [phrase for phrase, _ in key_phrases(text, listed_stop_words((_primary(lang) or "en",), is_joined=True))]


Phrase: TypeAlias = tuple[str, ...]


def key_phrases(text: str, stop: frozenset[str]) -> list[tuple[str, float]]:
    """The key phrases of a text with their weights, the best first; none if the text repeats no term."""
    sentences: list[list[str]] = []
    total = 0
    for part in _SENTENCE.split(text):
        sentence = words(part)
        if _KANA.search(part):
            sentence = _japanese_words(part)
            stop |= {word for word in sentence if is_unspaced(word[0]) and (len(word) == 1 or _script(word) == "hira")}
        if sentence:
            sentences.append(sentence)
            total += len(sentence)
            if total >= MAX_WORDS:
                break
    terms = _terms(sentences, stop, 3 if total > SHORT_TEXT_WORDS else 2)
    if not terms:
        return []
    lengths = np.array([len(sentence) for sentence in sentences], np.float64)
    occurs = np.zeros((len(terms), len(sentences)))
    for number, (_, places) in enumerate(terms):
        occurs[number, places] = 1.0
    clusters = _clusters(terms, occurs, FREQUENT_SHARE * total)
    joined = np.array([occurs[cluster].max(axis=0) for cluster in clusters])
    observed = occurs @ joined.T
    expected = np.maximum(np.outer(occurs @ lengths, joined @ lengths / total), 1e-9) * (len(sentences) / total)
    parts = (observed - expected) ** 2 / expected
    for column, cluster in enumerate(clusters):
        parts[cluster, column] = 0.0  # a term does not co-occur with itself
    weights = parts.sum(axis=1) - parts.max(axis=1)
    order = np.lexsort((np.arange(len(terms)), -weights))
    best = [(terms[number][0], float(weights[number])) for number in order.tolist() if weights[number] > 0]
    kept: list[tuple[Phrase, float]] = []
    for phrase, weight in best:
        if not any(_within(phrase, other) or _within(other, phrase) for other, _ in kept):
            kept.append((phrase, weight))
            if len(kept) == MAX_PHRASES:
                break
    return [(_render(phrase), weight) for phrase, weight in kept]


def _japanese_words(text: str) -> list[str]:
    """The words of a text, where characters of one script that stand together are one word."""
    found: list[str] = []
    for chunk in _CHUNK.findall(text):
        before = ""
        for word in words(chunk):
            script = before if word == "\u30fc" and before else _script(word)
            if script and script == before:
                found[-1] += word
            else:
                found.append(word)
            before = script
    return found


def _script(word: str) -> str:
    """The script of the first character of a Japanese word; "" if it is of one with blanks."""
    if "\u3041" <= word[0] <= "\u309f":
        return "hira"
    return "kata" if "\u30a1" <= word[0] <= "\u30ff" else "kanji" if is_unspaced(word[0]) else ""


def _terms(sentences: Sequence[Sequence[str]], stop: frozenset[str], least: int) -> list[tuple[Phrase, list[int]]]:
    """Frequent words and sequences of words, with the sentence of each occurrence, the most frequent first.

    A part of a sequence is left out if it is not more frequent than the whole.
    """
    terms: dict[Phrase, list[int]] = {}
    places = [(number, start) for number, sentence in enumerate(sentences) for start in range(len(sentence))]
    for length in range(1, LONGEST_PHRASE + 1):  # a sequence is frequent only if it is without its last word
        runs: dict[Phrase, list[tuple[int, int]]] = {}
        for place in places:
            number, start = place
            run = tuple(sentences[number][start : start + length])
            if len(run) == length:
                runs.setdefault(run, []).append(place)
        frequent = {run: of for run, of in runs.items() if len(of) >= least}
        terms |= {run: [number for number, _ in of] for run, of in frequent.items() if _is_phrase(run, stop)}
        places = [place for of in frequent.values() for place in of]
    redundant: set[Phrase] = set()
    for run, of in terms.items():
        for part in (run[:-1], run[1:]):
            if len(run) > 1 and part in terms and len(terms[part]) == len(of):
                redundant.add(part)
    chosen = [(run, of) for run, of in terms.items() if run not in redundant]
    return sorted(chosen, key=lambda term: (-len(term[1]), term[0]))


def _is_phrase(run: Phrase, stop: frozenset[str]) -> bool:
    if run[0] in stop or run[-1] in stop or all(word.isdigit() for word in run):
        return False
    if is_unspaced(run[0][0]):  # stop words of these scripts are one or two letters
        is_long = len(run) > 1 or (len(run[0]) > 1 and is_unspaced(run[0][1]))
        return is_long and "".join(run[:2]) not in stop and "".join(run[-2:]) not in stop
    return len(run) > 1 or len(run[0]) > 1


def _clusters(terms: Sequence[tuple[Phrase, list[int]]], occurs: Any, least_words: float) -> list[list[int]]:
    """Indices of the frequent terms, clustered by common sentences."""
    frequent, counted = 0, 0
    while frequent < min(FREQUENT_TERMS, len(terms)) and (counted < least_words or not frequent):
        counted += len(terms[frequent][1])
        frequent += 1
    together = occurs[:frequent] @ occurs[:frequent].T
    own = together.diagonal()
    information = np.log(np.maximum(together * occurs.shape[1], 1e-9) / np.outer(own, own))
    clusters: list[list[int]] = []
    for number in range(frequent):
        near = (cluster for cluster in clusters if information[number, cluster[0]] > LEAST_INFORMATION)
        cluster = next(near, None)
        if cluster is None:
            clusters.append([number])
        else:
            cluster.append(number)
    return clusters


def _within(phrase: Phrase, other: Phrase) -> bool:
    return any(other[start : start + len(phrase)] == phrase for start in range(len(other) - len(phrase) + 1))


def _render(phrase: Phrase) -> str:
    """A phrase as text: with spaces, except between words of scripts without them."""
    shown = phrase[0]
    for before, word in pairwise(phrase):
        shown += word if is_unspaced(before[0]) and is_unspaced(word[0]) else f" {word}"
    return shown


# --- entities


MAX_LINKS: Final = 500
"""Links to a page whose texts are read."""
TOP_SHARE: Final = 3
"""One of so many sentences is a top-ranked one."""


def entities(store: Store, lists: Mapping[str, Path]) -> Annotator:
    """`entities`: names of lists in a text, the most frequent first: [name, count, words before the first]; `focus`,
    the entity that the page is about."""
    if not lists or "focus" in lists:
        raise InvalidArgument("entities needs a list of names, which is not called focus: --list NAME=FILE")
    names = {name: _names(file) for name, file in lists.items()}
    finders = {name: entity_finder(entries) for name, entries in names.items()}
    version = blake3(json.dumps([2, list(names.items())]).encode("utf-8", "replace")).hexdigest(8)

    def of_document(document: Document) -> Fields | None:
        text = words("\n".join(filter(None, (document.title, document.text))))
        fields: dict[str, Any] = {name: matches for name, find in finders.items() if (matches := find(text))}
        if fields:  # only then are the texts of links read
            links = (cell.value.decode("utf-8", "replace") for cell in islice(store.anchors(document.url), MAX_LINKS))
            focus = focused_entity(document, fields, finders, links)
            fields |= {"focus": focus} if focus else {}
        return fields

    return Annotator("entities", version, of_document)


def focused_entity(
    document: Document, matches: Mapping[str, Finds], finders: Mapping[str, Finder], links: Iterable[str]
) -> Fields | None:
    """The entity that a page is about, with its support by the text; None if there is no candidate.

    Candidates are names in title, description, URL or texts of links that a sentence of the text has, too.  The first
    list with candidates counts; the focus is the one in most sentences, then the most frequent one.

        F    share of the sentences that have it
        PR   the same of the top-ranked sentences: the third whose words are the most frequent ones in the mean
        POS  mean of 1 - words before it / words, over the sentences that have it

    Simpler here than in the lectures: candidates are not weighted by idf, which changes with each page of the store.

    Args:
        document: with the families http and text.
        matches: names in title and text by list, the preferred list first.
        finders: by list.
        links: texts of links to the page.
    """
    newest, url = document.newest, shown_url(document.url).replace("_", " ")
    heads = [words(part) for part in (newest.title or "", newest.description or "", url, *links)]
    sentences = [split for part in _SENTENCE.split(newest.text or "") if (split := words(part))]
    stop = listed_stop_words((_primary(newest.lang or "") or "en",), is_joined=True)
    kept = [[word for word in sentence if word not in stop] for sentence in sentences]
    counts = Counter(word for sentence in kept for word in sentence)
    weights = [sum(counts[word] for word in sentence) / max(1, len(sentence)) for sentence in kept]
    top = set(sorted(range(len(kept)), key=lambda number: -weights[number])[: -(-len(kept) // TOP_SHARE)])
    for list_name, names in matches.items():
        candidates = {name for head in heads for name, _, _ in finders[list_name](head)}
        begins: dict[str | int, dict[int, float]] = {name: {} for name, _, _ in names if name in candidates}
        for number, sentence in enumerate(sentences):
            for name, _, place in finders[list_name](sentence):
                if name in begins:
                    begins[name][number] = 1 - int(place) / len(sentence)
        focus = max(begins, key=lambda name: len(begins[name]), default="")
        if has := begins.get(focus):
            shares = (len(has) / len(kept), len(top & has.keys()) / len(top), sum(has.values()) / len(has))
            support = zip(("F", "PR", "POS", "content_score"), (*shares, sum(shares)), strict=True)
            return {"list": list_name, "name": focus, **{name: round(value, 3) for name, value in support}}
    return None


def _names(file: Path) -> list[str]:
    """The names of a list: one on each line; empty lines and lines that begin with # are ignored."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"cannot read the list {file}: {error}; one name a line, in UTF-8") from error
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


Finds: TypeAlias = list[list[str | int]]
"""Names found in a text: [name, count, words before the first], the most frequent first."""
Finder: TypeAlias = Callable[[Sequence[str]], Finds]


def entity_finder(names: Iterable[str]) -> Finder:
    """Return a function that finds names in the words of a text, ignoring case and Unicode variants."""
    by_first: dict[str, dict[tuple[str, ...], str]] = {}
    for name in names:
        key = tuple(words(name))
        if key:
            by_first.setdefault(key[0], {}).setdefault(key, name)
    lengths = {first: sorted({*map(len, of)}, reverse=True) for first, of in by_first.items()}

    def find(text: Sequence[str]) -> Finds:
        places: dict[str, list[int]] = {}
        end = 0
        for place, word in enumerate(text):
            if place < end or word not in by_first:
                continue
            for length in lengths[word]:
                name = by_first[word].get(tuple(text[place : place + length]))
                if name is not None:
                    places.setdefault(name, []).append(place)
                    end = place + length
                    break
        matches: Finds = [[name, len(of_name), of_name[0]] for name, of_name in places.items()]
        return sorted(matches, key=lambda match: (-int(match[1]), int(match[2])))

    return find


# --- domain

LEAST_CLASSES: Final = 2


def domain(store: Store, lists: Mapping[str, Path]) -> Annotator:
    """`domain`: the class of a text with its probability, by logistic regression of its weighted words.

    The class is the folder of examples, of the folder `examples` in `lists`, whose texts have such words (tf-idf).
    Another set of examples is another version, so that the next pass computes the notes again.  Needs the extra
    `classify`.

    Raises:
        InvalidArgument: there are fewer than two classes with texts, or scikit-learn is not installed.
    """
    try:
        from sklearn import feature_extraction, linear_model, pipeline
    except ImportError as error:
        raise missing_extra("the annotator domain", "classify", error) from error
    folder = lists["examples"]
    kernel = Kernel(store.schema.extractor)
    texts: list[str] = []
    classes: list[str] = []
    digest = blake3()
    try:
        for file in sorted(path for path in folder.glob("*/*") if path.is_file() and path.name[0] != "."):
            body = file.read_bytes()
            kind = "text/html" if file.suffix.lower() in (".html", ".htm") else "text/plain"
            text = kernel.analyse(body, kind).main
            if words(text):
                texts.append(text)
                classes.append(file.parent.name)
                digest.update(f"{file.parent.name}\0{text}\0".encode("utf-8", "surrogatepass"))
    except OSError as error:
        raise InvalidArgument(f"the examples in {folder} cannot be read: {error}") from error
    if len(set(classes)) < LEAST_CLASSES:
        raise InvalidArgument(
            f"{folder} must have two folders or more, one for each class, with files of text or HTML; found texts in "
            f"{', '.join(sorted(set(classes))) or 'none'}"
        )
    weigh = feature_extraction.text.TfidfVectorizer(analyzer=_features, sublinear_tf=True)
    model = pipeline.make_pipeline(weigh, linear_model.LogisticRegression(max_iter=1000, class_weight="balanced"))
    model.fit(texts, classes)

    def of_document(document: Document) -> Fields | None:
        if not document.text or not words(document.text):
            return None
        [shares] = model.predict_proba([document.text])
        best = int(shares.argmax())
        return {"domain": str(model.classes_[best]), "score": round(float(shares[best]), 3)}

    return Annotator("domain", f"1-{digest.hexdigest(8)}", of_document)


def _features(text: str) -> list[str]:
    """Words, and pairs of characters of scripts without blanks."""
    read = words(text)[:MAX_WORDS]
    return [*read, *(a + b for a, b in pairwise(read) if is_unspaced(a[0]) and is_unspaced(b[0]))]
