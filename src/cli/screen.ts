/**
 * How answers are shown: as aligned text to people, as JSON to programs. Texts come from customers and may hold
 * anything, so nothing reaches the terminal that the terminal would obey.
 */
import type { Tone } from '../view/tone.ts'
import type { Shell } from './shell.ts'

const styles = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const
export type Style = keyof typeof styles

/** Colours of tones. */
export const toneStyles = {
  good: 'green',
  warn: 'yellow',
  bad: 'red',
  info: 'cyan',
  plain: 'dim',
} as const satisfies Record<Tone, Style>

/** A text, or one with a colour. */
export type Cell = string | { readonly text: string; readonly style: Style }

export interface Column {
  readonly title: string
  /** Numbers stand under one another from the right. */
  readonly right?: true
  /** Cut where the terminal is narrower than the table. */
  readonly shrink?: true
}

export interface Screen {
  /** Shows an answer: `value` itself as JSON, or the lines that `render` makes of it. */
  show(value: unknown, render: () => readonly string[]): void
  /** For lists without an end: one line, or one JSON text a line. */
  showLine(value: unknown, render: () => string): void
  /** A remark that is no part of the answer; programs do not get it. */
  remark(text: string): void
  paint(style: Style, text: string): string
  /** undefined: as wide as it takes. */
  readonly columns: number | undefined
}

export function makeScreen(shell: Shell, json: boolean): Screen {
  return {
    show: (value, render) =>
      shell.write(
        json
          ? `${JSON.stringify(value, null, 2)}\n`
          : render()
              .map((line) => `${line}\n`)
              .join(''),
      ),
    showLine: (value, render) => shell.write(`${json ? JSON.stringify(value) : render()}\n`),
    remark: (text) => (json ? undefined : shell.write(`${text}\n`)),
    paint: (style, text) => paint(shell.colour.out, style, text),
    columns: shell.columns,
  }
}

export function paint(colour: boolean, style: Style, text: string): string {
  return colour ? `\u001B[${styles[style]}m${text}\u001B[0m` : text
}

export function table(screen: Screen, columns: readonly Column[], rows: ReadonlyArray<readonly Cell[]>): string[] {
  const widths = fitWidths(
    columns,
    columns.map((column, i) => Math.max(column.title.length, ...rows.map((row) => plain(row[i] ?? '').length))),
    screen.columns,
  )
  const line = (cells: readonly Cell[]): string =>
    columns
      .map((column, i) => {
        const cell = cells[i] ?? ''
        const width = widths[i] ?? 0
        const text = cut(plain(cell), width)
        // The last column is not padded, so that no line ends in spaces.
        const padded = column.right ? text.padStart(width) : i === columns.length - 1 ? text : text.padEnd(width)
        return typeof cell === 'string' ? padded : screen.paint(cell.style, padded)
      })
      .join(GAP)
      .trimEnd()
  return [line(columns.map((column) => ({ text: column.title, style: 'dim' }))), ...rows.map(line)]
}

const GAP = '  '

/** Takes what is too much from the columns that may shrink, down to their titles. */
function fitWidths(columns: readonly Column[], widths: readonly number[], most: number | undefined): number[] {
  const all = widths.reduce((sum, width) => sum + width, 0) + GAP.length * (widths.length - 1)
  let over = most === undefined ? 0 : Math.max(0, all - most)
  return widths.map((width, i) => {
    const column = columns[i]
    const less = column?.shrink === true ? Math.min(over, Math.max(0, width - column.title.length)) : 0
    over -= less
    return width - less
  })
}

function cut(text: string, width: number): string {
  return text.length > width ? `${text.slice(0, Math.max(0, width - 1))}…` : text
}

/** A name and its value. Without a value it is not shown. */
export type Fact = readonly [name: string, value: Cell | null | undefined]

/** Names on the left, values on the right. */
export function fields(screen: Screen, rows: readonly Fact[]): string[] {
  const shown = rows.flatMap(([name, value]) => (value === undefined || value === null ? [] : [{ name, value }]))
  const width = Math.max(0, ...shown.map(({ name }) => name.length))
  return shown.map(({ name, value }) => {
    const text = typeof value === 'string' ? plain(value) : screen.paint(value.style, plain(value))
    return `${screen.paint('dim', name.padEnd(width))}  ${text}`
  })
}

function plain(cell: Cell): string {
  return printable(typeof cell === 'string' ? cell : cell.text)
}

/** Control characters are shown as what they are instead of being obeyed. */
export function printable(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, (character) => {
    const code = character.codePointAt(0) ?? 0
    return `\\x${code.toString(16).padStart(2, '0')}`
  })
}
