/**
 * Shows results: aligned text for people, JSON for programs. Texts come from customers and may contain anything, so
 * control characters are escaped before they reach the terminal.
 */
import type { Tone } from '../../view/tone.ts'
import type { Shell } from './shell.ts'

const styles = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const
export type Style = keyof typeof styles

export const toneStyles = {
  good: 'green',
  warn: 'yellow',
  bad: 'red',
  info: 'cyan',
  plain: 'dim',
} as const satisfies Record<Tone, Style>

/** A text, optionally with a color. */
export type Cell = string | { readonly text: string; readonly style: Style }

/** A name and its value. A fact without a value is not shown. */
export type Fact = readonly [name: string, value: Cell | null | undefined]

/** Columns of numbers are aligned to the right. In a narrow terminal texts are cut, those of the first column last. */
export interface Table {
  readonly titles: readonly string[]
  readonly rows: ReadonlyArray<readonly Cell[]>
  /** Whether the table is never cut, even in a narrow terminal. */
  readonly isWide?: boolean
}

/** A line, a fact or a table. Consecutive facts are aligned. undefined is skipped. */
export type Content = Cell | Fact | Table | undefined

export interface Screen {
  /** Shows an answer: `value` as JSON, or the content that `describe` returns. */
  show(value: unknown, describe: () => readonly Content[]): void
  /** Prints a row of an endless list as one line of text or JSON. `describe` must escape what it shows. */
  showLine(value: unknown, describe: () => string): void
  /** A remark beside the answer, which is not part of the JSON output. */
  remark(...content: readonly Content[]): void
  render(content: readonly Content[]): string[]
  paint(style: Style, text: string): string
}

export function makeScreen(shell: Shell, json: boolean): Screen {
  const paintOut = (style: Style, text: string): string => paint(shell.color.out, style, text)
  const render = (content: readonly Content[]): string[] => renderLines(content, paintOut, shell.columns)
  const write = (content: readonly Content[]): void =>
    shell.write(
      render(content)
        .map((line) => `${line}\n`)
        .join(''),
    )
  return {
    show: (value, describe) => (json ? shell.write(`${JSON.stringify(value, null, 2)}\n`) : write(describe())),
    showLine: (value, describe) => shell.write(`${json ? JSON.stringify(value) : describe()}\n`),
    remark: (...content) => (json ? undefined : write(content)),
    render,
    paint: paintOut,
  }
}

export function paint(color: boolean, style: Style, text: string): string {
  return color ? `\u001B[${styles[style]}m${text}\u001B[0m` : text
}

export function bold(text: string): Cell {
  return { text, style: 'bold' }
}

export function red(text: string): Cell {
  return { text, style: 'red' }
}

export function toned(tone: Tone, text: string): Cell {
  return { text, style: toneStyles[tone] }
}

type Paint = Screen['paint']

function renderLines(content: readonly Content[], paintOut: Paint, columns: number | undefined): string[] {
  const lines: string[] = []
  let facts: Fact[] = []
  const flush = (): void => {
    lines.push(...factLines(facts, paintOut))
    facts = []
  }
  for (const one of content) {
    if (one === undefined) continue
    if (isFact(one)) {
      facts.push(one)
      continue
    }
    flush()
    if (typeof one === 'object' && 'titles' in one) lines.push(...tableLines(one, paintOut, columns))
    else lines.push(painted(one, paintOut))
  }
  flush()
  return lines
}

function isFact(one: Content): one is Fact {
  return Array.isArray(one)
}

function factLines(facts: readonly Fact[], paintOut: Paint): string[] {
  const rows = facts.flatMap(([name, value]) => (value === undefined || value === null ? [] : [{ name, value }]))
  const width = Math.max(0, ...rows.map(({ name }) => name.length))
  return rows.map(({ name, value }) => `${paintOut('dim', name.padEnd(width))}  ${painted(value, paintOut)}`)
}

function painted(cell: Cell, paintOut: Paint): string {
  return typeof cell === 'string' ? printable(cell) : paintOut(cell.style, printable(cell.text))
}

const GAP = '  '

function tableLines({ titles, rows, isWide }: Table, paintOut: Paint, columns: number | undefined): string[] {
  const cells = rows.map((row) => titles.map((_, at) => row[at] ?? ''))
  const isRight = titles.map((_, at) => isNumeric(cells.map((row) => plain(row[at] ?? ''))))
  const widths = fitWidths(
    titles.map((title, at) => Math.max(title.length, ...cells.map((row) => plain(row[at] ?? '').length))),
    { titles, isRight, columns: isWide === true ? undefined : columns },
  )
  const line = (row: readonly Cell[]): string =>
    row
      .map((cell, at) => {
        const text = cut(plain(cell), widths[at] ?? 0)
        const padded = isRight[at] === true ? text.padStart(widths[at] ?? 0) : text.padEnd(widths[at] ?? 0)
        // The last column is not padded, so that no colored line ends in spaces.
        const trimmed = at === titles.length - 1 ? padded.trimEnd() : padded
        return typeof cell === 'string' ? trimmed : paintOut(cell.style, trimmed)
      })
      .join(GAP)
      .trimEnd()
  return [line(titles.map((text) => ({ text, style: 'dim' }))), ...cells.map(line)]
}

/** `12`, `+$1,234.50`, `-5%`, `1-8`, `3 of 8`, `13/26 ms`, `40 GB`: most of the cells that are not empty. */
function isNumeric(cells: readonly string[]): boolean {
  const filled = cells.filter((text) => text !== '')
  const numbers = filled.filter((text) =>
    /^\d{1,3}-\d{1,3}$|^[-+<]?\$?\d[\d,]*(\.\d+)?%?(\/\d[\d.]*)?( (of [\d,.]+|\+\d+|[A-Z]{1,2}B|MiB|m?s|°C|W))?$/.test(
      text,
    ),
  )
  return numbers.length * 2 > filled.length
}

/** Cuts the widest texts until the table fits, but not below their titles. */
function fitWidths(
  widths: number[],
  { titles, isRight, columns }: { titles: readonly string[]; isRight: readonly boolean[]; columns: number | undefined },
): number[] {
  const total = widths.reduce((sum, width) => sum + width, 0) + GAP.length * (widths.length - 1)
  for (let over = columns === undefined ? 0 : total - columns; over > 0; over -= 1) {
    const canShrink = widths.map((width, at) => (isRight[at] || width <= (titles[at] ?? '').length ? 0 : width))
    // The first column holds the name of the thing, which people copy.
    const widest = Math.max(...canShrink.slice(1)) || (canShrink[0] ?? 0)
    if (widest === 0) break
    widths[canShrink.lastIndexOf(widest)] = widest - 1
  }
  return widths
}

function cut(text: string, width: number): string {
  return text.length > width ? `${text.slice(0, Math.max(0, width - 1))}…` : text
}

function plain(cell: Cell): string {
  return printable(typeof cell === 'string' ? cell : cell.text)
}

/** Replaces control characters by their codes. */
export function printable(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, (character) => {
    const code = character.codePointAt(0) ?? 0
    return `\\x${code.toString(16).padStart(2, '0')}`
  })
}
