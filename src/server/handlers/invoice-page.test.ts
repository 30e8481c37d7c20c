import { describe, expect, test } from 'vitest'
import { instantOf } from '../../base/instant.ts'
import { usd } from '../../base/money.ts'
import { renderInvoice, type InvoiceRecord } from './invoice-page.ts'

const line = (description: string, amount: string, more: Partial<InvoiceRecord['lines'][number]> = {}) => ({
  description,
  quantity: '1 request',
  unitPriceUsd: null,
  amountUsd: usd(amount),
  ...more,
})

const invoice: InvoiceRecord = {
  number: 'B-9fK2mQ7x-2026-11',
  month: '2026-11',
  status: 'final',
  account: { id: 'acc_4YtQ0b2mL9xV7cZk9fK2mQ7x', name: 'Northwind & Söhne' },
  issuedAt: instantOf(Date.UTC(2026, 11, 1)),
  openingBalanceUsd: usd('1204.118200000'),
  lines: [
    line('Virtual machine brave-teal-otter (rental 12), 8 × H100, us-1', '7473.006666660', {
      quantity: '312.4167 hours',
      unitPriceUsd: usd('23.920000000'),
    }),
    line('Inference, llama-70b', '0.010000000'),
  ],
  chargesUsd: usd('7473.016666660'),
  payments: [
    line('Payment: wire', '12000.000000000', { quantity: '2026-11-02' }),
    line('Adjustment – credited twice', '-25.000000000', { quantity: '2026-11-20' }),
  ],
  paymentsUsd: usd('11975.000000000'),
  closingBalanceUsd: usd('5706.101533340'),
}

/** Visible text, without tags. */
const textOf = (html: string) =>
  html
    .replace(/<style>.*?<\/style>/s, '')
    .replace(/<[^>]*>/g, ' ')
    .replace(/\s+/g, ' ')

describe('a final invoice', () => {
  const html = renderInvoice(invoice)
  const text = textOf(html)

  test('names the account, the charges and the period', () => {
    expect(html).toContain('<title>Invoice B-9fK2mQ7x-2026-11</title>')
    expect(text).toContain('Billed to Northwind &amp; Söhne acc_4YtQ0b2mL9xV7cZk9fK2mQ7x')
    expect(text).toContain('Period 1 to 30 November 2026')
    expect(text).toContain('Issued 1 December 2026')
    expect(text).toContain(
      'Virtual machine brave-teal-otter (rental 12) 8 × H100, us-1 312.4167 hours $23.92 $7,473.01',
    )
    expect(text).toContain('Payment: wire 2026-11-02 $12,000.00')
    expect(text).not.toContain('not over')
  })

  test('rounds amounts to cents, and gives the exact ones as tooltips', () => {
    expect(text).toContain('Opening balance $1,204.12')
    expect(text).toContain('Payments and credits $11,975.00')
    expect(text).toContain('Charges -$7,473.02')
    expect(text).toContain('Closing balance $5,706.10')
    expect(text).toContain('Adjustment – credited twice 2026-11-20 -$25.00')
    expect(text).toContain('Inference llama-70b 1 request – $0.01')
    expect(html).toContain('<span title="$7,473.01666666">$7,473.02</span></td></tr></tfoot>')
    expect(html).toContain('<b>$11,975.00</b>')
  })

  test('is self-contained: no script, and nothing to fetch', () => {
    expect(html).not.toMatch(/<script|<link|<img|<iframe|@import|url\(|https?:|src=|\son\w+=/i)
    expect(html).toContain('size: A4')
    expect(html).toContain('tabular-nums')
  })
})

test('a unit price keeps all its decimals', () => {
  const cheap = line('Storage volume “x” (volume 1), 1 GB, us-1', '0.970000000', { unitPriceUsd: usd('0.000097000') })
  const amounts = {
    openingBalanceUsd: usd('1.000000000'),
    chargesUsd: usd('0.970000000'),
    closingBalanceUsd: usd('0.030000000'),
  }
  const text = textOf(
    renderInvoice({ ...invoice, ...amounts, lines: [cheap], payments: [], paymentsUsd: usd('0.000000000') }),
  )
  expect(text).toContain('$0.000097 $0.97 ')
  expect(text).toContain('There were no payments in this period.')
})

test('an open month is marked', () => {
  const text = textOf(renderInvoice({ ...invoice, status: 'open', lines: [], chargesUsd: usd('0.000000000') }))
  expect(text).toContain('Open')
  expect(text).toContain('As of 1 December 2026')
  expect(text).toContain('Balance so far')
  expect(text).toContain('There were no charges in this period.')
  expect(text).toContain('Charges $0.00')
})

test('escapes customer text everywhere', () => {
  const evil = `</style></title><script>alert(1)</script>"'&<img src=x onerror=alert(1)>`
  const html = renderInvoice({
    ...invoice,
    number: evil,
    month: evil,
    account: { id: evil, name: evil },
    lines: [line(`${evil}, ${evil}`, '1.000000000', { quantity: evil })],
    payments: [line(evil, '1.000000000', { quantity: evil })],
  })
  expect(html).not.toMatch(/<script|<img/i)
  expect(html.match(/<\/style>/g)).toHaveLength(1)
  expect(html.match(/<\/title>/g)).toHaveLength(1)
})
