/**
 * Writes a document as PDF/A-3b on A4, with its fonts embedded. The same document gives the same bytes: the only time in it is
 * that of its issue.
 */
import { buffer } from 'node:stream/consumers'
import { setImmediate } from 'node:timers/promises'
import PdfFile from 'pdfkit'
import type { DocumentParty } from '../../contract/document.ts'
import type { PrintedColumn, PrintedDocument, PrintedTable } from './printed-document.ts'
import { ACCENT, INK, MUTED, Sheet, type TextStyle } from './sheet.ts'
import { printable } from './text-run.ts'

const WIDTH = 595.28
const HEIGHT = 841.89
const LEFT = 56
const INNER = WIDTH - 2 * LEFT
const TOP = 56
/** Above the footer of each page. */
const BOTTOM = HEIGHT - 88
const GAP = 22
const COLUMN = 140
const FACTS = INNER - 2 * (COLUMN + GAP)
const FACT_LABEL = 66
const CELL_PAD = 7
const CELL_GAP = 14
const TOTALS_WIDTH = 252
/** A row takes milliseconds: requests come in between. */
const ROWS_AT_ONCE = 10

const label: TextStyle = { size: 7.5, weight: 'strong', color: MUTED }
const body: TextStyle = { size: 9 }
const quiet: TextStyle = { size: 8.5, color: MUTED }

export async function writePdf(document: PrintedDocument): Promise<Buffer> {
  const issuer = document.parties[0]?.[1].name ?? ''
  const pdf = new PdfFile({
    size: 'A4',
    margin: 0,
    bufferPages: true,
    pdfVersion: '1.7',
    subset: 'PDF/A-3b',
    lang: 'en',
    displayTitle: true,
    font: null,
    info: {
      Title: printable(`${document.title} ${document.number}`),
      Author: printable(issuer),
      Creator: 'Berth',
      Producer: 'Berth',
      CreationDate: new Date(document.issuedAt),
    },
  })
  const written = buffer(pdf)
  const sheet = new Sheet(pdf)
  let y = drawHead(sheet, document)
  for (const table of document.tables) y = await drawTable(sheet, table, y)
  y = drawTotals(sheet, document.totals, y)
  drawNotes(sheet, document.notes, y)
  drawFooters(sheet, document)
  pdf.end()
  return written
}

function drawHead(sheet: Sheet, { title, parties, facts }: PrintedDocument): number {
  const [first] = parties
  sheet.pdf.fillColor(ACCENT).rect(0, 0, WIDTH, 6).fill()
  const nameHeight = sheet.text(first?.[1].name ?? '', LEFT, TOP, INNER * 0.56, { size: 13, weight: 'strong' })
  const titleStyle: TextStyle = { size: 20, weight: 'strong', color: ACCENT, isRight: true }
  const titleHeight = sheet.text(title, LEFT + INNER * 0.6, TOP - 5, INNER * 0.4, titleStyle)
  const top = TOP + Math.max(nameHeight, titleHeight) + 26
  const ends = parties.map(([what, party], n) => drawParty(sheet, what, party, LEFT + n * (COLUMN + GAP), top))
  let y = top
  const x = LEFT + 2 * (COLUMN + GAP)
  for (const [what, text] of facts) {
    const height = sheet.heightOf(text, FACTS - FACT_LABEL, body)
    sheet.text(what, x, y + 0.5, FACT_LABEL - 6, { ...quiet, size: 8 })
    y += sheet.text(text, x + FACT_LABEL, y, FACTS - FACT_LABEL, body) + (height > 14 ? 3 : 2)
  }
  return Math.max(y, ...ends) + 30
}

function drawParty(sheet: Sheet, what: string, party: DocumentParty, x: number, top: number): number {
  let y = top + sheet.text(what, x, top, COLUMN, label) + 3
  y += sheet.text(party.name, x, y, COLUMN, { ...body, weight: 'strong' })
  for (const line of party.lines) y += sheet.text(line, x, y, COLUMN, body)
  if (party.taxId !== null) y += 2 + sheet.text(`Tax ID ${party.taxId}`, x, y + 2, COLUMN, body)
  if (party.email !== null) y += sheet.text(party.email, x, y, COLUMN, quiet)
  return y
}

async function drawTable(sheet: Sheet, table: PrintedTable, top: number): Promise<number> {
  const columns = placed(table.columns)
  let y =
    table.title === null ? top : top + sheet.text(table.title, LEFT, top, INNER, { size: 11, weight: 'strong' }) + 8
  const drawTitles = (): void => {
    for (const { x, width, isNumber, label: text } of columns)
      sheet.text(text, x, y, width, { ...label, isRight: isNumber })
    y += 16
    sheet.rule(LEFT, y, INNER, INK)
  }
  drawTitles()
  for (const [n, row] of table.rows.entries()) {
    if (n % ROWS_AT_ONCE === ROWS_AT_ONCE - 1) await setImmediate()
    const heights = columns.map(({ width, isNumber }, column) =>
      sheet.heightOf(row[column] ?? '', width, { ...body, isNumber }),
    )
    const height = Math.max(...heights) + 2 * CELL_PAD
    if (y + height > BOTTOM) {
      y = nextPage(sheet)
      drawTitles()
    }
    columns.forEach(({ x, width, isNumber }, column) => {
      sheet.text(row[column] ?? '', x, y + CELL_PAD, width, { ...body, isRight: isNumber, isNumber })
    })
    y += height
    sheet.rule(LEFT, y, INNER)
  }
  return y + 18
}

/** With their places: one column takes what the others leave. */
function placed(columns: readonly PrintedColumn[]): Array<PrintedColumn & { x: number; width: number }> {
  const fixed = columns.reduce((sum, { width }) => sum + (width ?? 0), 0)
  const rest = INNER - fixed - CELL_GAP * (columns.length - 1)
  let x = LEFT
  return columns.map((column) => {
    const width = column.width ?? rest
    const one = { ...column, x, width }
    x += width + CELL_GAP
    return one
  })
}

function drawTotals(sheet: Sheet, totals: PrintedDocument['totals'], top: number): number {
  let y = top + totals.length * 22 > BOTTOM ? nextPage(sheet) : top
  const x = LEFT + INNER - TOTALS_WIDTH
  const amountWidth = 110
  totals.forEach(([what, amount], n) => {
    const isLast = n === totals.length - 1
    const style: TextStyle = isLast ? { size: 11.5, weight: 'strong' } : body
    if (isLast) {
      sheet.rule(x, y + 2, TOTALS_WIDTH, INK)
      y += 10
    }
    const height = sheet.text(what, x, y, TOTALS_WIDTH - amountWidth - 8, style)
    sheet.text(amount, x + TOTALS_WIDTH - amountWidth, y, amountWidth, { ...style, isRight: true, isNumber: true })
    y += height + 5
  })
  return y + 22
}

function drawNotes(sheet: Sheet, notes: readonly string[], top: number): void {
  let y = top
  for (const note of notes) {
    const height = sheet.heightOf(note, INNER, body)
    if (y + height > BOTTOM) y = nextPage(sheet)
    y += sheet.text(note, LEFT, y, INNER, body) + 6
  }
}

function nextPage({ pdf }: Sheet): number {
  pdf.addPage()
  return TOP
}

function drawFooters(sheet: Sheet, { title, number, footer }: PrintedDocument): void {
  const { start, count } = sheet.pdf.bufferedPageRange()
  const numberWidth = 150
  for (let page = start; page < start + count; page += 1) {
    sheet.pdf.switchToPage(page)
    sheet.rule(LEFT, BOTTOM + 28, INNER)
    const y = BOTTOM + 36
    const style: TextStyle = { size: 7.5, color: MUTED }
    if (footer !== null) {
      const lines = sheet.wrap(footer, INNER - numberWidth - GAP, style)
      lines.slice(0, 4).forEach((line, n) => sheet.text(line, LEFT, y + n * 10.5, INNER - numberWidth - GAP, style))
    }
    const pages = `${title} ${number} · Page ${page - start + 1} of ${count}`
    sheet.text(pages, LEFT + INNER - numberWidth, y, numberWidth, { ...style, isRight: true })
  }
}
