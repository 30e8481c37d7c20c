/**
 * Accessibility faults of the current page, by axe. Contrast is half of its time, and most text of a page looks like
 * text of another: what axe has passed once in this worker is not measured again where it looks the same.
 */
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'

interface AxeFault {
  readonly id: string
  readonly impact: string | null
  readonly nodes: ReadonlyArray<{ readonly html: string; readonly failureSummary?: string }>
}

const CONTRAST = 'color-contrast'
/** Faults that axe rates moderate but that make pages hard to navigate. */
const alsoCounts: ReadonlySet<string> = new Set(['landmark-unique', 'landmark-no-duplicate-main', 'heading-order'])
/** Dear rules that axe rates moderate or minor: their faults would not count. */
const leftOut = ['region', 'aria-allowed-role', 'form-field-multiple-labels', 'page-has-heading-one']

/**
 * Without what no rule or message here needs: fetching style sheets, selectors of every element, frames. That is a
 * third of the time.
 */
const axeOptions = { preload: false, selectors: false, iframes: false }
const structureOptions = {
  ...axeOptions,
  resultTypes: ['violations'],
  elementRef: false,
  runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'],
  rules: Object.fromEntries([CONTRAST, ...leftOut].map((rule) => [rule, { enabled: false }])),
}
const contrastOptions = {
  ...axeOptions,
  resultTypes: ['violations', 'passes'],
  elementRef: true,
  runOnly: [CONTRAST],
}

/** What axe has passed. Text that it could not judge, such as covered text, is not in it. */
const passedLooks = new Set<string>()
let axe: Promise<string> | undefined

/** Serious and critical faults, each with its element. Colours do not matter to them. */
export async function findStructureFaults(page: Page): Promise<string[]> {
  await addAxe(page)
  const run = `axe.run(document, ${JSON.stringify(structureOptions)}).then((result) => result.violations)`
  return describeFaults(await page.evaluate<AxeFault[]>(run))
}

export async function findContrastFaults(page: Page): Promise<string[]> {
  // The colours of a new theme appear with the next frame.
  await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))')
  const looks = await page.evaluate<string[]>(READ_LOOKS)
  const unknown = looks.filter((look) => !passedLooks.has(look))
  if (unknown.length === 0) return []
  await addAxe(page)
  const run = `(${CHECK_CONTRAST})(${JSON.stringify(unknown)}, ${JSON.stringify(contrastOptions)})`
  const { violations, passed } = await page.evaluate<{ violations: AxeFault[]; passed: string[] }>(run)
  for (const look of passed) passedLooks.add(look)
  return describeFaults(violations)
}

async function addAxe(page: Page): Promise<void> {
  axe ??= readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
  if (await page.evaluate<boolean>('globalThis.axe === undefined')) await page.evaluate(`${await axe};0`)
}

function describeFaults(found: readonly AxeFault[]): string[] {
  return found
    .filter(({ id, impact }) => impact === 'serious' || impact === 'critical' || alsoCounts.has(id))
    .flatMap((fault) => fault.nodes.map((node) => `${fault.id}: ${node.html} (${node.failureSummary ?? ''})`))
}

/**
 * Runs in the page: the looks of all text that axe can judge. A look is a hash of everything that decides the contrast:
 * the colours and the font of the text, and what is painted behind it.
 */
const READ_LOOKS = `(() => {
  const hash = (text) => {
    let [one, other] = [0xdeadbeef, 0x41c6ce57]
    for (let at = 0; at < text.length; at += 1) {
      one = Math.imul(one ^ text.charCodeAt(at), 2654435761)
      other = Math.imul(other ^ text.charCodeAt(at), 1597334677)
    }
    return (one >>> 0).toString(36) + '-' + (other >>> 0).toString(36)
  }
  const memoize = (read) => {
    const known = new Map()
    return (element) => {
      if (!known.has(element)) known.set(element, read(element))
      return known.get(element)
    }
  }
  const NOTHING = 'rgba(0, 0, 0, 0);none;1;none;normal'
  const paint = memoize((element) => {
    const { backgroundColor, backgroundImage, opacity, filter, mixBlendMode } = getComputedStyle(element)
    return [backgroundColor, backgroundImage, opacity, filter, mixBlendMode].join(';')
  })
  // What is placed freely and lets something shine through may lie on anything near it.
  const near = (element) => {
    const { position, backgroundColor } = getComputedStyle(element)
    const isCertain = /^(static|relative)$/.test(position) || !/rgba|[/]/.test(backgroundColor)
    return isCertain ? '' : [...new Set([...element.parentElement.querySelectorAll('*')].map(paint))].join('|')
  }
  const ground = memoize((element) => {
    const { parentElement } = element
    if (parentElement === null) return innerWidth + paint(element)
    const own = paint(element)
    const others = near(element)
    return own === NOTHING && others === '' ? ground(parentElement) : hash([ground(parentElement), own, others].join('|'))
  })
  const look = (element) => {
    const { color, fontSize, fontWeight, textShadow, webkitTextFillColor } = getComputedStyle(element)
    return hash([ground(element), color, fontSize, fontWeight, textShadow, webkitTextFillColor].join(';'))
  }
  const hasText = (element) =>
    element.matches('select, textarea, input:not([type=checkbox], [type=radio], [type=range])') ||
    [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && /[\\p{L}\\p{N}]/u.test(node.data))
  const isOff = (element) =>
    element.closest(':disabled, [aria-disabled=true]') !== null || element.closest('label')?.control?.disabled === true
  const isVisible = (element) => {
    const { width, height } = element.getBoundingClientRect()
    const isCut = getComputedStyle(element).clipPath === 'inset(50%)'
    return width > 1 && height > 1 && !isCut && element.checkVisibility({ visibilityProperty: true, opacityProperty: true })
  }
  const modals = document.querySelectorAll('dialog:modal')
  const places = modals.length > 0 ? [...modals] : [document.body]
  const texts = new Map()
  for (const element of places.flatMap((place) => [...place.querySelectorAll('*')])) {
    if (hasText(element) && !isOff(element) && isVisible(element)) texts.set(element, look(element))
  }
  globalThis.berthTexts = texts
  return [...new Set(texts.values())]
})()`

const CHECK_CONTRAST = `async (unknown, options) => {
  const isUnknown = new Set(unknown)
  const include = [...berthTexts.keys()].filter((element) => isUnknown.has(berthTexts.get(element)))
  const { violations, passes } = await axe.run({ include }, options)
  const passed = new Set(passes.flatMap(({ nodes }) => nodes.map(({ element }) => berthTexts.get(element))))
  const named = violations.map((one) => ({ ...one, nodes: one.nodes.map((node) => ({ ...node, element: undefined })) }))
  const failed = new Set(violations.flatMap(({ nodes }) => nodes.map(({ element }) => berthTexts.get(element))))
  return { violations: named, passed: [...passed].filter((look) => look !== undefined && !failed.has(look)) }
}`
