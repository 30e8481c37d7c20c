/** Tax and documents: who is taxed, what is issued, and what never changes. */
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { issueDocument } from '../src/app/document/issue-document.ts'
import { HOUR_MS } from '../src/base/instant.ts'
import { usd } from '../src/base/money.ts'
import type { Reply } from '../src/client/client.ts'
import { exampleBodies } from '../src/contract/openapi/example-body.ts'
import type { DocumentContent } from '../src/domain/document.ts'
import { transact } from '../src/store/platform/database.ts'
import { succeed } from './harness/journey.ts'
import { payTopUp, rowOf, startPaying, topUp, type Paying } from './harness/paying.ts'
import type { Call } from './harness/server.ts'
import { cards } from './sim/stripe-object.ts'

const VAT_ID = 'FR40303265045'
const profile = exampleBodies.setBillingProfile

let paying: Paying
beforeAll(async () => {
  paying = await startPaying()
  await succeed(paying.operator, 'PUT', '/v2/operator/seller', exampleBodies.setSeller)
  await succeed(paying.operator, 'PUT', '/v2/operator/tax-rates', { country: 'DE', name: 'VAT', percent: '19' })
  await succeed(paying.operator, 'PUT', '/v2/operator/tax-rates', { country: 'FR', name: 'TVA', percent: '20' })
})
afterAll(() => paying.close())

const account = () => paying.account({ sshKey: false })
type Issued = Reply<'listDocuments'>['documents'][number]

const documentsOf = async (call: Call): Promise<Issued[]> =>
  (await succeed(call, 'GET', '/v2/billing/documents')).documents
const dataOf = async (call: Call, number: string) =>
  (await succeed(call, 'GET', `/v2/billing/documents/${number}`)).data

/** Pays on the page, and returns the invoice. */
async function buy(call: Call, amountUsd = '100'): Promise<Issued> {
  const { id } = await payTopUp(paying, call, amountUsd)
  await paying.deliver()
  await paying.settle()
  const invoice = (await documentsOf(call)).find(({ subject }) => subject === id)
  if (invoice === undefined) throw new Error(`payment ${id} has no invoice`)
  return invoice
}

const verify = (id: string, vatId = VAT_ID, isVerified = true) =>
  succeed(paying.operator, 'POST', `/v2/operator/accounts/${id}/vat-id`, {
    vatId,
    isVerified,
    reason: 'asked the office',
  })

test('promise 39: $100 at 19 % charges $119.00, credits $100 and books $19 of tax, by own rates', async () => {
  const { id, call } = await account()
  const before = await paying.house('tax')
  const invoice = await buy(call)
  expect(invoice).toMatchObject({
    kind: 'invoice',
    amountUsd: '100.000000000',
    taxUsd: '19.000000000',
    totalUsd: '119.000000000',
  })
  expect(paying.stripe.get((await rowOf(paying.app, invoice.subject)).intent_id ?? '')['amount']).toBe(11_900)
  expect(await paying.available(id)).toBe(usd('100'))
  expect((await paying.house('tax')) - before).toBe(usd('19'))
  expect((await dataOf(call, invoice.number)).tax).toEqual({ label: 'VAT 19%', amountUsd: '19.000000000' })
  expect(await paying.findings()).toEqual([])
})

describe('promise 54: the VAT ID', () => {
  test('an unverified one is taxed, a verified one of another country is not, one that is rejected is again', async () => {
    const { id, call } = await account()
    const set = await succeed(call, 'PUT', '/v2/billing/profile', profile)
    expect(set.profile).toMatchObject({ vatId: VAT_ID, vatState: 'pending' })
    const first = await buy(call)
    expect([first.taxUsd, (await dataOf(call, first.number)).buyer.taxId]).toEqual(['20.000000000', null])
    await verify(id)
    const second = await buy(call)
    expect(second.taxUsd).toBe('0.000000000')
    const { buyer, tax, notes } = await dataOf(call, second.number)
    expect([buyer.taxId, tax.label]).toEqual([VAT_ID, 'Reverse charge 0%'])
    expect(notes[0]).toContain('Reverse charge')
    await verify(id, VAT_ID, false)
    expect((await buy(call)).taxUsd).toBe('20.000000000')
  })

  test('a change counts for later payments and documents only', async () => {
    const { id, call } = await account()
    await succeed(call, 'PUT', '/v2/billing/profile', profile)
    await verify(id)
    const invoice = await buy(call)
    const data = await dataOf(call, invoice.number)
    const { id: paymentId } = await topUp(call)
    await succeed(call, 'PUT', '/v2/billing/profile', { ...profile, name: 'Other', vatId: null })
    await succeed(paying.operator, 'PUT', '/v2/operator/tax-rates', { country: 'FR', name: 'TVA', percent: '33' })
    // The payment that had begun keeps its tax, and names the ID that it had.
    paying.stripe.pay((await rowOf(paying.app, paymentId)).session_id ?? '')
    await paying.deliver()
    await paying.settle()
    const [begun] = await documentsOf(call)
    expect([begun?.subject, begun?.taxUsd]).toEqual([paymentId, '0.000000000'])
    expect((await dataOf(call, begun?.number ?? '')).buyer.taxId).toBe(VAT_ID)
    expect(await dataOf(call, invoice.number)).toEqual(data)
    expect((await buy(call)).taxUsd).toBe('33.000000000')
    await succeed(paying.operator, 'PUT', '/v2/operator/tax-rates', { country: 'FR', name: 'TVA', percent: '20' })
  })

  test('another one has to be verified anew, and a verdict is about the ID that was checked', async () => {
    const { id, call } = await account()
    await succeed(call, 'PUT', '/v2/billing/profile', profile)
    await verify(id)
    const kept = await succeed(call, 'PUT', '/v2/billing/profile', { ...profile, city: 'Lyon' })
    expect(kept.profile.vatState).toBe('verified')
    const german = { ...profile, country: 'DE', vatId: 'de 136695976' }
    expect((await succeed(call, 'PUT', '/v2/billing/profile', german)).profile).toMatchObject({
      vatId: 'DE136695976',
      vatState: 'pending',
    })
    const late = await paying.operator('POST', `/v2/operator/accounts/${id}/vat-id`, exampleBodies.checkVatId)
    expect(late.body.reason).toBe('vat_id_missing')
    // Verified, but of the seller's own country.
    await verify(id, 'DE136695976')
    expect((await buy(call)).taxUsd).toBe('19.000000000')
  })

  test.each([
    [{ vatId: 'FR40303265046' }, 'vat_id_invalid'],
    [{ vatId: 'DE136695976' }, 'vat_id_country'],
    [{ vatId: '<b>' }, 'vat_id_invalid'],
  ])('%j is refused: %s', async (change, reason) => {
    const { call } = await account()
    expect(JSON.stringify((await call('PUT', '/v2/billing/profile', { ...profile, ...change })).body)).toContain(reason)
  })

  test('with Stripe Tax, the customer at Stripe gets the ID only after it is verified', async () => {
    const other = await startPaying()
    try {
      other.stripe.taxPercent = 19
      await succeed(other.operator, 'PUT', '/v2/operator/seller', { ...exampleBodies.setSeller, taxBy: 'processor' })
      const { id, call } = await other.account({ sshKey: false })
      await succeed(call, 'PUT', '/v2/billing/profile', profile)
      await other.checkVatIds()
      const pay = async (): Promise<string | undefined> => {
        const { id: paymentId } = await payTopUp(other, call)
        await other.deliver()
        await other.settle()
        return (await documentsOf(call)).find(({ subject }) => subject === paymentId)?.taxUsd
      }
      const stateOf = async () => (await succeed(call, 'GET', '/v2/billing/profile')).profile.vatState
      const heldByPayer = async (): Promise<unknown[]> => {
        const row = await other.app.database.db
          .selectFrom('billing_profile')
          .select('customer_id')
          .where('account_id', '=', id)
          .executeTakeFirst()
        return other.stripe.all('tax_id').flatMap((one) => (one['customer'] === row?.customer_id ? [one['value']] : []))
      }
      expect([await pay(), await stateOf(), await heldByPayer()]).toEqual(['19.000000000', 'pending', []])
      other.stripe.verifyTaxId(VAT_ID, 'verified')
      await other.deliver()
      await other.settle()
      await other.checkVatIds()
      expect(await stateOf()).toBe('verified')
      expect([await pay(), await heldByPayer()]).toEqual(['0.000000000', [VAT_ID]])
      await succeed(call, 'PUT', '/v2/billing/profile', { ...profile, vatId: 'FR83404833048' })
      await other.checkVatIds()
      other.stripe.verifyTaxId('FR83404833048', 'unverified')
      await other.catchUp()
      await other.checkVatIds()
      expect([await stateOf(), await pay(), await heldByPayer()]).toEqual(['unverified', '19.000000000', []])
      expect(await other.findings()).toEqual([])
    } finally {
      await other.close()
    }
  })
})

test('an automatic top-up is taxed by own rates, and has an invoice', async () => {
  const { id, call } = await account()
  const { id: first } = await topUp(call, '10', { saveCard: true })
  paying.stripe.pay((await rowOf(paying.app, first)).session_id ?? '', cards.good)
  await paying.deliver()
  await paying.settle()
  await succeed(call, 'PUT', '/v2/billing/auto-top-up', {
    belowUsd: '20.00',
    amountUsd: '100.00',
    monthlyCapUsd: '119.00',
    consent: true,
  })
  await paying.topUpNow()
  const [invoice] = await documentsOf(call)
  expect([invoice?.amountUsd, invoice?.taxUsd]).toEqual(['100.000000000', '19.000000000'])
  expect(await paying.available(id)).toBe(usd('110'))
  expect(paying.stripe.all('tax.calculation')).toEqual([])
  // The cap includes the tax: another charge of $119 does not fit.
  paying.clock.advance(HOUR_MS + 1)
  await paying.topUpNow()
  expect(await documentsOf(call)).toHaveLength(2)
})

const content = (text: string): DocumentContent => {
  const party = { name: text, lines: [text], taxId: null, email: null }
  return {
    seller: party,
    buyer: party,
    facts: [],
    lines: [[text, usd('1')]],
    tax: { label: 'Tax', amount: usd('0') },
    notes: [text],
    footer: null,
  }
}

describe('promise 55: numbers', () => {
  test('have no gap and no repeat when twenty are issued at once and half of them are rolled back', async () => {
    const { id } = await account()
    const { database } = paying.app
    const before = await sequences('SB')
    const issue = (n: number) =>
      transact(database, async (tx) => {
        const { number } = await issueDocument(tx, {
          kind: 'self_billing',
          accountId: id,
          subject: `payout_${n}`,
          content: content('x'),
        })
        if (n % 2 === 1) throw new Error('rolled back')
        return number
      })
    const answers = await Promise.allSettled(Array.from({ length: 20 }, (_, n) => issue(n)))
    const issued = answers.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
    expect(issued).toHaveLength(10)
    expect(new Set(issued).size).toBe(10)
    const after = await sequences('SB')
    expect(after).toEqual(Array.from({ length: before.length + 10 }, (_, n) => n + 1))
    expect(await paying.findings()).toEqual([])
  })

  test('of a kind and subject there is one document; the second uses up no number', async () => {
    const { id } = await account()
    const issue = () =>
      transact(paying.app.database, (tx) =>
        issueDocument(tx, { kind: 'self_billing', accountId: id, subject: 'payout_twice', content: content('x') }),
      )
    await issue()
    const before = await sequences('SB')
    await expect(issue()).rejects.toMatchObject({ code: '23505' })
    expect(await sequences('SB')).toEqual(before)
    const { rows } = await sql<{ last: number }>`select last from document_number where series = 'SB'`.execute(
      paying.app.database.db,
    )
    expect(rows).toEqual([{ last: before.length }])
  })

  test.each([
    'update document_number set last = last + 2',
    'update document_number set last = last - 1',
    'delete from document_number',
  ])('the database refuses: %s', async (statement) => {
    await expect(sql.raw(statement).execute(paying.app.database.db)).rejects.toMatchObject({ code: '23001' })
  })

  async function sequences(series: string): Promise<number[]> {
    const rows = await paying.app.database.db
      .selectFrom('document')
      .select('sequence')
      .where('series', '=', series)
      .orderBy('sequence')
      .execute()
    return rows.map(({ sequence }) => sequence)
  }
})

describe('promise 56: a document never changes', () => {
  test.each([
    `update document set tax_nano = 0`,
    `update document set data = '{}'`,
    'delete from document',
    'truncate document cascade',
    `update document_pdf set pdf = ''`,
    'delete from document_pdf',
  ])('the database refuses: %s', async (statement) => {
    const { call } = await account()
    await buy(call, '5')
    await paying.writeFiles()
    await expect(sql.raw(statement).execute(paying.app.database.db)).rejects.toMatchObject({ code: '23001' })
  })

  test('a refund has a credit note that names the invoice, and one that fails is taken back', async () => {
    const { call } = await account()
    const invoice = await buy(call)
    // Documents of one instant are listed by number.
    paying.clock.advance(HOUR_MS)
    const before = await dataOf(call, invoice.number)
    await succeed(paying.operator, 'POST', `/v2/operator/payments/${invoice.subject}/refund`, {
      amountUsd: '50',
      reason: 'half of it',
    })
    await paying.settle()
    const [note] = await documentsOf(call)
    expect(note).toMatchObject({
      kind: 'credit_note',
      corrects: invoice.number,
      amountUsd: '50.000000000',
      taxUsd: '9.500000000',
    })
    expect((await dataOf(call, note?.number ?? '')).facts[0]).toEqual({
      label: 'Corrects',
      text: `Invoice ${invoice.number}`,
    })
    const refund = paying.stripe.all('refund').at(-1)
    paying.clock.advance(HOUR_MS)
    paying.stripe.failRefund(String(refund?.['id']))
    await paying.deliver()
    await paying.settle()
    const [again] = await documentsOf(call)
    expect(again).toMatchObject({
      kind: 'invoice',
      corrects: note?.number,
      amountUsd: '50.000000000',
      taxUsd: '9.500000000',
      subject: `${note?.subject}:return`,
    })
    expect(await dataOf(call, invoice.number)).toEqual(before)
    expect(await paying.findings()).toEqual([])
  })

  test('a dispute has a credit note, and one that is won an invoice again', async () => {
    const { call } = await account()
    const invoice = await buy(call)
    // Documents of one instant are listed by number.
    paying.clock.advance(HOUR_MS)
    const { intent_id: intentId } = await rowOf(paying.app, invoice.subject)
    const dispute = paying.stripe.dispute(intentId ?? '')
    await paying.deliver()
    await paying.settle()
    const [note] = await documentsOf(call)
    expect(note).toMatchObject({ kind: 'credit_note', corrects: invoice.number, totalUsd: '119.000000000' })
    expect(await paying.findings()).toEqual([])
    paying.clock.advance(HOUR_MS)
    paying.stripe.closeDispute(String(dispute['id']), 'won')
    await paying.deliver()
    await paying.settle()
    const [again] = await documentsOf(call)
    expect(again).toMatchObject({ kind: 'invoice', corrects: note?.number, totalUsd: '119.000000000' })
    expect(await paying.findings()).toEqual([])
  })

  test('the file stays the same, byte by byte, and nobody else gets it', async () => {
    const { key, call } = await account()
    const invoice = await buy(call)
    const read = async (as: string): Promise<Response> =>
      fetch(`${paying.url}/v2/billing/documents/${invoice.number}/pdf`, { headers: { Authorization: `Bearer ${as}` } })
    const first = Buffer.from(await (await read(key)).arrayBuffer())
    expect(first.subarray(0, 8).toString('latin1')).toBe('%PDF-1.7')
    await succeed(paying.operator, 'PUT', '/v2/operator/seller', { ...exampleBodies.setSeller, name: 'Renamed GmbH' })
    await paying.writeFiles()
    expect(Buffer.from(await (await read(key)).arrayBuffer()).equals(first)).toBe(true)
    await succeed(paying.operator, 'PUT', '/v2/operator/seller', exampleBodies.setSeller)
    const { key: stranger, call: strange } = await account()
    expect((await read(stranger)).status).toBe(404)
    expect((await strange('GET', `/v2/billing/documents/${invoice.number}`)).body.reason).toBe('document_not_found')
    expect(await documentsOf(strange)).toEqual([])
  })
})

test('without a seller no document is issued, and payments from before have none later', async () => {
  const other = await startPaying()
  try {
    const { call } = await other.account({ sshKey: false })
    const { id } = await payTopUp(other, call)
    await other.deliver()
    await other.settle()
    await succeed(other.operator, 'PUT', '/v2/operator/seller', exampleBodies.setSeller)
    await succeed(other.operator, 'POST', `/v2/operator/payments/${id}/refund`, { amountUsd: '5', reason: 'a test' })
    other.clock.advance(1_000)
    await payTopUp(other, call)
    await other.deliver()
    await other.settle()
    const documents = await documentsOf(call)
    expect(documents.map(({ number }) => number)).toEqual([
      `INV-${new Date(other.clock.now()).getUTCFullYear()}-000001`,
    ])
    expect(await other.findings()).toEqual([])
  } finally {
    await other.close()
  }
})

test('a later page of documents begins after the last number', async () => {
  const { call } = await account()
  for (const amount of ['5', '6', '7']) {
    await buy(call, amount)
    paying.clock.advance(1_000)
  }
  const all = await documentsOf(call)
  const rest = await succeed(call, 'GET', `/v2/billing/documents?before=${all[0]?.number}`)
  expect(rest.documents).toEqual(all.slice(1))
})
