"""How a page of the console is laid out, as the browser has it: expressions for `chromium.Page.value`.

Owns: what is wrong with a layout. Each expression is a list of what is wrong, empty where all is well.
"""

from tests.support.chromium import Page

WIDTHS = (390, 820, 1_400)
"""A phone, a tablet held upright, and a desk."""

_WIDER = """[document.documentElement.scrollWidth].filter((width) => width > innerWidth)"""

_BROKEN = """(() => {
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    for (const match of node.data.matchAll(/[^\\s/-]+/g)) {  // a line may end after a hyphen or a slash
      const range = document.createRange();
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      const boxes = [...range.getClientRects()].filter((each) => each.width);
      const lines = new Set(boxes.map((each) => Math.round(each.top)));
      if (lines.size > 1 && match[0].length <= 32) found.push(match[0]);
    }
  }
  return found;
})()"""
"""Words that are on two lines, though one has room for them."""

_OFF_SCREEN = """[...document.querySelectorAll('td, th, dt, dd, li, p, h1, h2, a, button, input, select, textarea')]
  .filter((each) => !each.matches('.skip'))
  .map((each) => [each, each.getBoundingClientRect()])
  .filter(([, box]) => box.width && (box.left < 0 || box.right > innerWidth + 1))
  .map(([each]) => `${each.tagName} ${each.textContent.trim().slice(0, 40)}`)"""

_UNLABELLED = """[...document.querySelectorAll('table')].flatMap((table) => {
  const headings = [...table.tHead.rows[0].cells].map((each) => each.textContent);
  return [...table.tBodies[0].rows].filter((row) => row.cells.length === headings.length)
    .flatMap((row) => [...row.cells].filter((cell, index) => (cell.dataset.label ?? '') !== headings[index]))
    .map((cell) => cell.textContent.trim());
})"""
"""Values whose heading on a phone is not that of their column."""

_PALE = """(() => {
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (colour) => numbers(colour).slice(0, 3).map((each) => each / 255)
    .map((each) => each <= .04045 ? each / 12.92 : ((each + .055) / 1.055) ** 2.4)
    .reduce((sum, each, index) => sum + each * [.2126, .7152, .0722][index], 0);
  const behind = (element) => {
    const colour = getComputedStyle(element).backgroundColor;
    return numbers(colour)[3] === 0 && element.parentElement ? behind(element.parentElement) : colour;
  };
  const texts = '.cell:not(.unstable), .state, .figures dt, .figures dd, li, p, h1, h2, small, th, td, a, b, .faint';
  return [...document.querySelectorAll(texts)]
    .map((each) => [light(getComputedStyle(each).color), light(behind(each)), each.className || each.tagName])
    .map(([a, b, name]) => [(Math.max(a, b) + .05) / (Math.min(a, b) + .05), name])
    .filter(([contrast]) => contrast < 4.5);
})()"""
"""Texts with less contrast than WCAG asks for, 4.5: in every kind of cell, state and figure, plain and faint."""

_ALL = {"wider": _WIDER, "broken": _BROKEN, "off screen": _OFF_SCREEN, "unlabelled": _UNLABELLED, "pale": _PALE}


def faults_of(page: Page) -> dict[str, object]:
    """What is wrong with the layout of the page as it is now."""
    found = {name: page.value(expression) for name, expression in _ALL.items()}
    return {name: wrong for name, wrong in found.items() if wrong}
