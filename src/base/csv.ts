/** Cells of CSV files (RFC 4180). */

export function csvRow(cells: readonly string[]): string {
  return `${cells.map(quoted).join(',')}\r\n`
}

/** Escapes text of others: spreadsheets run what begins like a formula. */
export function textCell(text: string): string {
  return /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
}

function quoted(cell: string): string {
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell
}
