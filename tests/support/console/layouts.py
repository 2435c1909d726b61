"""How a page of the console is laid out, as the browser has it: expressions for `chromium.Page.value`.

Owns: what is wrong with a layout. Each expression is a list of what is wrong, empty where all is well.
"""

from tests.support.console.chromium import Page

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
  // What is half transparent is nearer to what is behind it.
  const opacity = (element) => element ? Number(getComputedStyle(element).opacity) * opacity(element.parentElement) : 1;
  const seen = (element) => {
    const [shown, under, much] = [getComputedStyle(element).color, behind(element), opacity(element)];
    const mixed = numbers(shown).slice(0, 3).map((each, index) => each * much + numbers(under)[index] * (1 - much));
    return light(`rgb(${mixed})`);
  };
  const texts = '.cell, .state, .figures dt, .figures dd, li, p, h1, h2, small, th, td, a, b, i, .faint, .off, '
    + '.pager span, label, button';
  return [...document.querySelectorAll(texts)]
    .filter((each) => each.getClientRects().length)
    .map((each) => [seen(each), light(behind(each)), each.className || each.tagName])
    .map(([a, b, name]) => [(Math.max(a, b) + .05) / (Math.min(a, b) + .05), name])
    .filter(([contrast]) => contrast < 4.5);
})()"""
"""Texts with less contrast than WCAG asks for, 4.5: in every kind of cell, state and figure, plain and faint."""

_SMALL = """(() => {
  const targets = [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary')]
    .filter((each) => !each.matches('.skip') && getComputedStyle(each).display !== 'inline')
    .map((each) => [each, each.getBoundingClientRect()])
    .filter(([, box]) => box.width && box.height);
  const middle = (box) => [box.left + box.width / 2, box.top + box.height / 2];
  const isSmall = (box) => box.width < 24 || box.height < 24;
  // A small one may stand alone: no other target in a circle of 24 pixels around its middle.
  const isNear = (box, other) => {
    const [x, y] = middle(box);
    const [dx, dy] = isSmall(other)
      ? middle(other).map((each, index) => each - [x, y][index])
      : [Math.max(other.left - x, 0, x - other.right), Math.max(other.top - y, 0, y - other.bottom)];
    return Math.hypot(dx, dy) < (isSmall(other) ? 24 : 12);
  };
  return targets.filter(([, box]) => isSmall(box))
    .filter(([each, box]) => targets.some(([other, its]) => other !== each && isNear(box, its)))
    .map(([each, box]) => `${each.tagName}.${each.className} ${box.width} x ${box.height}`);
})()"""
"""Targets smaller than 24 pixels with another one near them (WCAG 2.2, 2.5.8); links in a text may be as it is."""

_BY_COLOUR = """[...document.querySelectorAll('main a[href]')]
  .filter((each) => getComputedStyle(each).display === 'inline' && !each.closest('nav'))
  .filter((each) => [...(each.closest('p, li, td, dd, h1, h2') ?? each.parentElement).childNodes]
    .some((node) => node !== each && !node.contains(each) && node.textContent.trim()))
  .filter((each) => !getComputedStyle(each).textDecorationLine.includes('underline'))
  .map((each) => each.textContent.trim())"""
"""Links in a text that differ from it by their colour alone."""

_UNNAMED = (
    """[...document.querySelectorAll('th')].filter((each) => !each.textContent.trim()).map((each) => each.outerHTML)"""
)
"""Columns without a heading."""

_ALL = {
    "wider": _WIDER,
    "broken": _BROKEN,
    "off screen": _OFF_SCREEN,
    "unlabelled": _UNLABELLED,
    "pale": _PALE,
    "small": _SMALL,
    "by colour": _BY_COLOUR,
    "unnamed": _UNNAMED,
}


def faults_of(page: Page) -> dict[str, object]:
    """Returns the faults of the page's present layout, by name."""
    found = {name: page.value(expression) for name, expression in _ALL.items()}
    return {name: wrong for name, wrong in found.items() if wrong}
