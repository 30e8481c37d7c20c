/**
 * xterm and the page's policy. The policy lets styles come from files of the server only; xterm writes `<style>`
 * elements and `style` attributes, which the browser would refuse. Both are led to where the policy allows the same
 * thing: a style sheet that is made by script, and the element's style object.
 */

/** Does `work`, which must not wait, with `<style>` elements that are style sheets of the document in disguise. */
export function withStyleSheets(work: () => void): void {
  const create = document.createElement.bind(document)
  document.createElement = (name: string, options?: ElementCreationOptions) =>
    name === 'style' ? makeSheetElement(create('template')) : create(name, options)
  try {
    work()
  } finally {
    // The one of all documents is back in sight.
    Reflect.deleteProperty(document, 'createElement')
  }
}

function makeSheetElement(element: HTMLElement): HTMLElement {
  const sheet = new CSSStyleSheet()
  document.adoptedStyleSheets.push(sheet)
  Object.defineProperty(element, 'textContent', {
    set: (css: string) => {
      sheet.replaceSync(css)
    },
  })
  Object.defineProperty(element, 'remove', {
    value: () => {
      document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet)
      HTMLElement.prototype.remove.call(element)
    },
  })
  return element
}

/**
 * Colours that no class stands for are written by xterm as the attribute of a span, at any time later. What the
 * attribute would say is said to the style object; for everyone else nothing changes.
 */
export function allowStyleOfSpans(): void {
  if (Object.hasOwn(HTMLSpanElement.prototype, 'setAttribute')) return
  HTMLSpanElement.prototype.setAttribute = function setAttribute(this: HTMLSpanElement, name, value) {
    if (name === 'style') this.style.cssText = value
    else Element.prototype.setAttribute.call(this, name, value)
  }
}
