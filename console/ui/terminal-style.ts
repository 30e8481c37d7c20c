/**
 * Makes xterm work with the page's content security policy, which allows styles only from files. xterm writes `<style>`
 * elements and `style` attributes; both are redirected to their permitted equivalents: constructed style sheets and the
 * element's style object.
 */

/** Runs `work`, which must be synchronous, with `<style>` elements backed by constructed style sheets. */
export function withStyleSheets(work: () => void): void {
  const create = document.createElement.bind(document)
  document.createElement = (name: string, options?: ElementCreationOptions) =>
    name === 'style' ? makeSheetElement(create('template')) : create(name, options)
  try {
    work()
  } finally {
    // Restores the prototype's method.
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

/** xterm sets colors without a class as style attributes of spans at any time; these go to the style object. */
export function allowStyleOfSpans(): void {
  if (Object.hasOwn(HTMLSpanElement.prototype, 'setAttribute')) return
  HTMLSpanElement.prototype.setAttribute = function setAttribute(this: HTMLSpanElement, name, value) {
    if (name === 'style') this.style.cssText = value
    else Element.prototype.setAttribute.call(this, name, value)
  }
}
