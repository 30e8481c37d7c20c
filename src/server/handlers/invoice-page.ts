/**
 * Renders an invoice as a page that prints on A4. It is self-contained, without scripts, fonts or images to fetch, so
 * that a saved copy never changes. Amounts are rounded for people; the exact amount is in the tooltip.
 */
import type { z } from 'zod'
import { formatDay, parseInstant, startOfNextMonth, addMs, type Instant } from '../../base/instant.ts'
import { formatUsdExactly, formatUsdForPeople, nanoUsdOf, type NanoUsd } from '../../base/money.ts'
import type { invoiceRecord } from '../../contract/billing.ts'

export type InvoiceRecord = z.output<typeof invoiceRecord>
type Line = InvoiceRecord['lines'][number]

export function renderInvoice(invoice: InvoiceRecord): string {
  const open = invoice.status === 'open'
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(`Invoice ${invoice.number}`)}</title>
<style>${style}@page { @bottom-left { content: ${cssText(`Invoice ${invoice.number}`)} } }</style>
</head>
<body>
<main>
<header>
  <div class="brand">Berth</div>
  <div class="title"><h1>Invoice</h1>${open ? '<span class="badge">Open: the month has not ended</span>' : ''}</div>
</header>
<dl class="facts">
  <div class="to"><dt>Billed to</dt><dd><strong>${escapeHtml(invoice.account.name)}</strong><br><span class="quiet">${escapeHtml(invoice.account.id)}</span></dd></div>
  <div><dt>Invoice number</dt><dd>${escapeHtml(invoice.number)}</dd></div>
  <div><dt>Period</dt><dd>${escapeHtml(period(invoice.month))}</dd></div>
  <div><dt>${open ? 'As of' : 'Issued'}</dt><dd>${escapeHtml(day(invoice.issuedAt))}</dd></div>
</dl>
<section class="sum">
  <div><span>Opening balance</span><b>${money(invoice.openingBalanceUsd)}</b></div>
  <div><span>Payments and credits</span><b>${money(invoice.paymentsUsd)}</b></div>
  <div><span>Charges</span><b>${money(nanoUsdOf(0n - invoice.chargesUsd))}</b></div>
  <div class="closing"><span>${open ? 'Balance so far' : 'Closing balance'}</span><b>${money(invoice.closingBalanceUsd)}</b></div>
</section>
<h2>Charges</h2>
${chargeTable(invoice)}
<h2>Payments and credits</h2>
${paymentTable(invoice)}
<footer>
  <p><strong>No payment is due.</strong> This account is prepaid: the charges above were deducted from its balance.</p>
  <p>All amounts are in US dollars and all times in UTC. Usage is metered by the millisecond and charged to the
  nano-dollar. Amounts are shown in cents, or with up to four decimals below a dollar; the statement has the exact
  amounts. A charge is on the invoice of the month in which it was posted.</p>
</footer>
</main>
</body>
</html>
`
}

function chargeTable(invoice: InvoiceRecord): string {
  if (invoice.lines.length === 0) return '<p class="none">There were no charges in this period.</p>'
  const row = (
    line: Line,
  ) => `<tr><td>${description(line.description)}</td><td class="n">${escapeHtml(line.quantity)}</td>
<td class="n">${line.unitPriceUsd === null ? '<span class="quiet">–</span>' : formatUsdExactly(line.unitPriceUsd)}</td><td class="n">${money(line.amountUsd)}</td></tr>`
  return `<table>
<thead><tr><th>Description</th><th class="n">Quantity</th><th class="n">Unit price</th><th class="n">Amount</th></tr></thead>
<tbody>
${invoice.lines.map(row).join('\n')}
</tbody>
<tfoot><tr><td colspan="3">Total charges</td><td class="n">${money(invoice.chargesUsd)}</td></tr></tfoot>
</table>`
}

/** A payment's quantity is its date. */
function paymentTable(invoice: InvoiceRecord): string {
  if (invoice.payments.length === 0) return '<p class="none">There were no payments in this period.</p>'
  const row = (line: Line) =>
    `<tr><td>${escapeHtml(line.description)}</td><td class="n">${escapeHtml(line.quantity)}</td><td class="n">${money(line.amountUsd)}</td></tr>`
  return `<table>
<thead><tr><th>Description</th><th class="n">Date</th><th class="n">Amount</th></tr></thead>
<tbody>
${invoice.payments.map(row).join('\n')}
</tbody>
<tfoot><tr><td colspan="2">Total payments and credits</td><td class="n">${money(invoice.paymentsUsd)}</td></tr></tfoot>
</table>`
}

/** The part after the first comma explains the line and goes below it. */
function description(text: string): string {
  const [, head = text, explanation] = /^(.*?), (.*)$/s.exec(text) ?? []
  return explanation === undefined
    ? escapeHtml(text)
    : `${escapeHtml(head)}<br><span class="quiet">${escapeHtml(explanation)}</span>`
}

/** The tooltip has the digits that rounding drops. */
function money(amount: NanoUsd): string {
  const [rounded, exact] = [formatUsdForPeople(amount), formatUsdExactly(amount)]
  return rounded === exact ? escapeHtml(rounded) : `<span title="${escapeHtml(exact)}">${escapeHtml(rounded)}</span>`
}

const months = 'January February March April May June July August September October November December'.split(' ')

function period(month: string): string {
  const first = parseInstant(`${month}-01T00:00:00Z`)
  if (first === undefined) return month
  const last = addMs(startOfNextMonth(first), -1)
  return `1 to ${day(last)}`
}

function day(at: Instant | undefined): string {
  if (at === undefined) return ''
  const [year = '', month = '', day = ''] = formatDay(at).split('-')
  return `${Number.parseInt(day, 10)} ${months[Number.parseInt(month, 10) - 1] ?? month} ${year}`
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character] ?? '')
}

/** Text inside the style sheet: only characters that can end neither the string nor the sheet. */
function cssText(text: string): string {
  return `'${text.replace(/[^\w .-]/g, '')}'`
}

const style = `
:root { color-scheme: light; --ink: #16202c; --quiet: #5d6b7a; --line: #d9e0e7; --accent: #0b5c8a }
* { box-sizing: border-box }
body { margin: 0; background: #eef1f4; color: var(--ink); font: 14px/1.45 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', sans-serif }
main { max-width: 210mm; min-height: 297mm; margin: 24px auto; padding: 18mm 16mm; background: #fff; box-shadow: 0 1px 4px #16202c26 }
header { display: flex; justify-content: space-between; align-items: flex-start; border-bottom: 2px solid var(--ink); padding-bottom: 14px }
.brand { font-size: 24px; font-weight: 700; letter-spacing: -.01em; color: var(--accent) }
.title { text-align: right }
h1 { margin: 0; font-size: 24px; font-weight: 600 }
h2 { margin: 30px 0 6px; font-size: 15px; break-after: avoid }
.badge { display: inline-block; margin-top: 4px; padding: 2px 9px; border: 1px solid #b7791f; border-radius: 99px; color: #8a5a10; font-size: 12px }
.facts { display: grid; grid-template-columns: 1.4fr 1.05fr 1.3fr .95fr; gap: 14px; margin: 20px 0 24px }
.facts dt { color: var(--quiet); font-size: 12px }
.facts dd { margin: 2px 0 0; overflow-wrap: anywhere }
.quiet, .none { color: var(--quiet); font-size: 12.5px }
.sum { display: grid; grid-template-columns: repeat(4, 1fr); border: 1px solid var(--line); border-radius: 6px; break-inside: avoid }
.sum div { padding: 10px 12px; border-left: 1px solid var(--line) }
.sum div:first-child { border-left: 0 }
.sum span { display: block; color: var(--quiet); font-size: 12px }
.sum b { font-size: 16px; font-weight: 600; white-space: nowrap }
.sum .closing { background: #f1f6fa }
table { width: 100%; border-collapse: collapse; font-size: 13.5px }
thead { display: table-header-group }
tfoot { display: table-row-group }
tr { break-inside: avoid }
th { padding: 6px 0; border-bottom: 1px solid var(--ink); color: var(--quiet); font-size: 12px; font-weight: 500; text-align: left; white-space: nowrap }
td { padding: 8px 0; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere }
tbody tr:last-child td { border-bottom-color: var(--ink) }
tfoot td { border-bottom: 0; font-weight: 600 }
.n { padding-left: 16px; text-align: right; white-space: nowrap }
.n, .sum b { font-variant-numeric: tabular-nums }
footer { margin-top: 34px; padding-top: 12px; border-top: 1px solid var(--line); color: var(--quiet); font-size: 12.5px; break-inside: avoid }
footer p { margin: 0 0 6px }
footer strong { color: var(--ink) }
@media (max-width: 700px) {
  main { margin: 0; padding: 20px 16px }
  .facts, .sum { grid-template-columns: 1fr 1fr }
  .sum div:nth-child(3) { border-left: 0 }
  .sum div:nth-child(n+3) { border-top: 1px solid var(--line) }
  td.n:nth-child(2) { white-space: normal }
}
@page { size: A4; margin: 16mm 15mm 18mm; @bottom-right { content: counter(page) ' / ' counter(pages) } }
@page { @bottom-left { font: 9px Helvetica, Arial, sans-serif; color: #5d6b7a } @bottom-right { font: 9px Helvetica, Arial, sans-serif; color: #5d6b7a } }
@media print {
  body { background: none; font-size: 12px }
  h2 { margin-top: 20px }
  td { padding: 5px 0 }
  table { font-size: 12px }
  .quiet, .none, footer { font-size: 11px }
  footer { margin-top: 22px }
  main { max-width: none; min-height: 0; margin: 0; padding: 0; box-shadow: none }
  * { print-color-adjust: exact }
}
`
