/** Files of documents, read by other programs: the structure by qpdf, the text by pdftotext. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { printedDocument } from '../src/artifacts/document/printed-document.ts'
import { writePdf } from '../src/artifacts/document/write-pdf.ts'
import { instantOf } from '../src/base/instant.ts'
import { usd } from '../src/base/money.ts'
import { documentDataOf, type DocumentContent } from '../src/domain/document.ts'
import { needs } from './needs.ts'

needs('pdf')

let folder: string
beforeAll(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'berth-pdf-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const ISSUED = instantOf(Date.parse('2026-11-19T10:00:00Z'))
const seller = { name: 'Example Cloud GmbH', lines: ['Hafenstr. 1', 'Hamburg'], taxId: 'DE136695976', email: null }

function contentFor(name: string, more: Partial<DocumentContent> = {}): DocumentContent {
  return {
    seller,
    buyer: { name, lines: [name, 'Paris'], taxId: 'FR40303265045', email: null },
    facts: [['Your order', name]],
    lines: [[`Credit for ${name}`, usd('1250')]],
    tax: { label: 'Reverse charge 0%', amount: usd('0') },
    notes: ['Reverse charge: the recipient owes the tax.'],
    footer: name,
    ...more,
  }
}

async function write(content: DocumentContent, kind: 'invoice' | 'credit_note' = 'invoice'): Promise<string> {
  const number = kind === 'invoice' ? 'INV-2026-000001' : 'CN-2026-000001'
  const file = path.join(folder, `${Math.random()}.pdf`)
  writeFileSync(
    file,
    await writePdf(printedDocument({ number, kind, issuedAt: ISSUED, data: documentDataOf(content) })),
  )
  return file
}

const textOf = (file: string): string => execFileSync('pdftotext', ['-raw', file, '-'], { encoding: 'utf8' })

/** Throws if the structure has an error or is worth a warning. */
const VALID = 'No syntax or stream encoding errors'

function check(file: string): string {
  return execFileSync('qpdf', ['--check', file], { encoding: 'utf8' })
}

test('a document has its number, parties, lines, tax and total', async () => {
  const file = await write(contentFor('Recherches SARL'))
  expect(check(file)).toContain(VALID)
  const text = textOf(file)
  const parts = ['Invoice', 'INV-2026-000001', '19 November 2026', 'Example Cloud GmbH', 'Tax ID DE136695976']
  const rest = ['Recherches SARL', 'Tax ID FR40303265045', '$1,250.00', 'Reverse charge 0%', 'US dollars (USD)']
  for (const part of [...parts, ...rest]) expect(text).toContain(part)
})

test('a credit note names its invoice', async () => {
  const file = await write(
    contentFor('Recherches SARL', { facts: [['Corrects', 'Invoice INV-2026-000042']] }),
    'credit_note',
  )
  expect(check(file)).toContain(VALID)
  expect(textOf(file).replace(/\s+/g, ' ')).toContain('Invoice INV-2026-000042')
})

describe('promise 57: a name breaks no PDF', () => {
  test.each([
    ['markup', '<b>A & B</b> &amp; "Sons" \'Ltd\''],
    ['a formula', '=SUM(1;2)+@cmd|calc'],
    ['syntax of PDF', ') Tj ET (\\) endstream %%EOF'],
    ['accents', 'Łódź Étoilées Ñandú Ελλάδα Россия Tiếng Việt'],
  ])('%s is printed as it is', async (_, name) => {
    const file = await write(contentFor(name))
    expect(check(file)).toContain(VALID)
    expect(textOf(file).replace(/\s+/g, ' ')).toContain(name)
  })

  test.each([
    ['Hebrew', 'חברה לדוגמה בע"מ'],
    ['Arabic', 'شركة الحوسبة السحابية'],
    ['both directions', 'Acme שלום 25 (Ltd)'],
    ['letters of no font', '中文公司 🚀'],
    ['controls', 'a\u0000b\u001Bc\u202Ed\uFEFFe\nf'],
    ['a long word', 'x'.repeat(200)],
    ['spaces only', '   '],
    ['half of a pair', '\uD83D!'],
  ])('%s', async (_, name) => {
    expect(check(await write(contentFor(name)))).toContain(VALID)
  })

  test('the words of Hebrew are printed from right to left', async () => {
    const text = textOf(await write(contentFor('שלום עולם')))
    const [, second = '', first = ''] = /(עולם)\P{L}+(שלום)/u.exec(text) ?? []
    expect([first, second]).toEqual(['שלום', 'עולם'])
  })

  test('hundreds of lines take several pages, each with its number', async () => {
    const lines = Array.from({ length: 120 }, (_, n) => [`Line ${n} ${'long '.repeat(20)}`, usd('1')] as const)
    const file = await write(contentFor('Recherches SARL', { lines }))
    expect(check(file)).toContain(VALID)
    const text = textOf(file)
    expect(text).toMatch(/Page 1 of \d+/)
    expect(text).toContain('Line 119')
    expect(text).toContain('$120.00')
  })
})

test('the same document gives the same bytes, with PDF/A-3b and all fonts embedded', async () => {
  const print = () =>
    writePdf(
      printedDocument({
        number: 'INV-2026-000001',
        kind: 'invoice',
        issuedAt: ISSUED,
        data: documentDataOf(contentFor('A')),
      }),
    )
  const [first, second] = [await print(), await print()]
  expect(first.equals(second)).toBe(true)
  const file = path.join(folder, 'same.pdf')
  writeFileSync(file, first)
  const fonts = execFileSync('pdffonts', [file], { encoding: 'utf8' }).split('\n').slice(2).filter(Boolean)
  expect(fonts.length).toBeGreaterThan(0)
  for (const line of fonts) expect(line).toMatch(/yes\s+yes\s+yes/)
  expect(first.toString('latin1')).toContain('<pdfaid:part>3</pdfaid:part>')
})
