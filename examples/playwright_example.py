"""Write rendered pages into a store: `python examples/playwright_example.py http://localhost:8470 https://example.com/`.

Needs `pip install docstore playwright` and a browser (`playwright install chromium`, or its path in CHROMIUM).  The
first argument is the address of `docstore serve`, so that several browsers may write into one store.
"""

import os
import sys

from playwright.sync_api import Error, sync_playwright

import docstore


def main(server: str, *urls: str) -> None:
    """Render each page and write it as the browser shows it."""
    with docstore.connect(server) as store, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM"), args=["--no-sandbox"])
        tab = browser.new_page()
        for url in urls:
            try:
                response = tab.goto(url, wait_until="networkidle")
            except Error as error:  # an unknown host or a timeout ends this URL only
                print("failed", url, error.message.splitlines()[0], file=sys.stderr)
                continue
            if response is None:
                continue
            # `content` is the document after its scripts, in UTF-8 whatever the server declared.
            headers = {"Content-Type": "text/html; charset=utf-8"}
            result = store.put_page(tab.url, tab.content().encode(), headers=headers, status=response.status)
            print(result.verdict.kind, result.url, result.verdict.of_url)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
