/** The XML bank file, checked against the schema that other authors ship: PyPI's sepaxml has it for pain.001.001.09. */
import { execFile } from 'node:child_process'
import { mkdtemp, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { DAY_MS } from '../src/base/instant.ts'
import { removeFolder } from './harness/leftover.ts'
import { startPaying, type Paying } from './harness/paying.ts'
import { bank, done, earn, openSupplier, payOut, setUpBank } from './harness/payout.ts'
import { pythonPackages, whyNoPython } from './lab/python-packages.ts'
import { needs } from './needs.ts'

needs('python')

const why = whyNoPython()
/** The first run installs the packages. */
const START_MS = 10 * 60_000
const VERSION = '2.7.0'

/** Prints why the file is not valid, then the sums and names as a reader of XML sees them. */
const CHECK = `
import json, os, sys, xmlschema, sepaxml
import xml.etree.ElementTree as tree
schema = xmlschema.XMLSchema(os.path.join(os.path.dirname(sepaxml.__file__), 'schemas', 'pain.001.001.09.xsd'))
faults = [str(error.reason) for error in schema.iter_errors(sys.argv[1])]
tag = lambda name: '{urn:iso:std:iso:20022:tech:xsd:pain.001.001.09}' + name
root = tree.parse(sys.argv[1]).getroot()
texts = lambda name: [one.text for one in root.iter(tag(name))]
print(json.dumps({'faults': faults, 'sums': texts('CtrlSum'), 'counts': texts('NbOfTxs'), 'names': texts('Nm'),
  'amounts': [[one.get('Ccy'), one.text] for one in root.iter(tag('InstdAmt'))], 'ids': texts('EndToEndId')}))
`

describe.skipIf(why !== undefined)(`the bank file in XML${why === undefined ? '' : ` (skipped: ${why})`}`, () => {
  let paying: Paying
  let folder: string
  let PYTHONPATH: string
  beforeAll(async () => {
    PYTHONPATH = await pythonPackages(`sepaxml-${VERSION}`, [`sepaxml==${VERSION}`])
    folder = await mkdtemp(path.join(os.tmpdir(), 'berth-bank-file-'))
    paying = await startPaying({
      env: { BERTH_PAYOUT_NAME: 'Berth & Söhne <GmbH>', BERTH_PAYOUT_IBAN: 'DE02 1203 0000 0000 2020 51' },
    })
  }, START_MS)
  afterAll(async () => {
    await paying?.close()
    await removeFolder(folder)
  })

  async function check(text: string) {
    const file = path.join(folder, 'payouts.xml')
    await writeFile(file, text)
    const env = { PATH: process.env['PATH'], PYTHONPATH }
    const { stdout } = await promisify(execFile)('python3', ['-c', CHECK, file], { env })
    return JSON.parse(stdout) as {
      faults: string[]
      sums: string[]
      counts: string[]
      names: string[]
      amounts: Array<[string, string]>
      ids: string[]
    }
  }

  test('a mistake is noticed', async () => {
    const { faults } = await check(
      '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.001.001.09"><CstmrCdtTrfInitn/></Document>',
    )
    expect(faults).not.toEqual([])
  })

  test.each([
    ['EUR', '0.913456'],
    ['USD', undefined],
  ])('promise 63: is valid, adds up in %s, and escapes names', async (currency, eurRate) => {
    const holders = ['O\'Neil & <Sons> "GPU"', '=1+1\u0007', 'Ådne Ødegård 株式会社']
    for (const [n, holder] of holders.entries()) {
      const supplier = await openSupplier(paying)
      const number = { accountNumber: '000123456789', routingNumber: '110000000' }
      await setUpBank(
        supplier,
        n === 1 ? { holder, ...number } : { ...bank, holder, ...(n === 0 ? { bic: 'COBADEFFXXX' } : {}) },
      )
      await earn(paying, supplier.id, `${100 + n}.0${n + 1}9`)
    }
    paying.clock.advance(15 * DAY_MS)
    const { id, payouts } = await payOut(paying)
    const order = { format: 'pain.001', ...(eurRate === undefined ? {} : { eurRate }) }
    const file = await done(paying.operator('POST', `/v2/operator/payouts/${id}/export`, order))
    const read = await check(file.text)
    expect(read.faults).toEqual([])
    const cents = read.amounts.map(([, amount]) => Math.round(Number(amount) * 100))
    const total = (cents.reduce((sum, one) => sum + one, 0) / 100).toFixed(2)
    expect(read.sums).toEqual([total, total])
    expect([file.total, file.currency]).toEqual([total, currency])
    expect(read.counts).toEqual(['3', '3'])
    expect(new Set(read.amounts.map(([ccy]) => ccy))).toEqual(new Set([currency]))
    expect(read.ids.toSorted()).toEqual(payouts.map((one: { id: string }) => one.id).toSorted())
    expect(read.names.slice(2).toSorted()).toEqual(
      ['O\'Neil & <Sons> "GPU"', '=1+1 ', 'Ådne Ødegård 株式会社'].toSorted(),
    )
    expect(read.names.slice(0, 2)).toEqual(['Berth & Söhne <GmbH>', 'Berth & Söhne <GmbH>'])
    const millionths = Math.round(Number(eurRate ?? 1) * 1_000_000)
    const expected = payouts.map((one: { amountUsd: string }) =>
      Math.floor((Math.round(Number(one.amountUsd) * 100) * millionths) / 1_000_000),
    )
    expect(cents.toSorted((a, b) => a - b)).toEqual(expected.toSorted((a: number, b: number) => a - b))
  })
})
