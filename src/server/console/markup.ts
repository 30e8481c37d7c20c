/** HTML as values. Templates escape everything that is not HTML already, so that forgetting is safe. */

export interface Markup {
  readonly html: string
}

type Part = Markup | string | number | undefined | readonly Part[]

export function html(fixed: TemplateStringsArray, ...parts: readonly Part[]): Markup {
  return { html: fixed.map((text, index) => text + (index < parts.length ? render(parts[index]) : '')).join('') }
}

export function join(parts: readonly Markup[], between: string): Markup {
  return { html: parts.map((part) => part.html).join(escapeText(between)) }
}

/** Text with `code` in backticks, as the contract writes it. */
export function prose(text: string): Markup {
  return html`${text.split('`').map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part))}`
}

export function escapeText(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}

function render(part: Part): string {
  if (part === undefined) return ''
  if (typeof part === 'string' || typeof part === 'number') return escapeText(String(part))
  return 'html' in part ? part.html : part.map(render).join('')
}
