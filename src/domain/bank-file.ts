/**
 * The bank file of a run: CSV for people and spreadsheets, or a credit transfer in XML (ISO 20022, pain.001.001.09) that
 * banks read. Amounts are in USD, or in EUR at the rate that the operator gives, each line rounded down to cents.
 */
import { csvRow, textCell } from '../base/csv.ts'
import { formatDay, formatInstant, type Instant } from '../base/instant.ts'
import type { NanoUsd } from '../base/money.ts'
import type { BankAccount } from './bank-account.ts'
import { centsOf } from './payment.ts'

/** The operator's own account. */
export interface DebtorAccount {
  readonly name: string
  readonly iban: string
  readonly bic: string | null
}

export interface BankPayment {
  readonly payoutId: string
  readonly cents: number
  readonly account: BankAccount
}

export interface BankFile {
  readonly runId: string
  readonly at: Instant
  readonly currency: 'USD' | 'EUR'
  readonly payments: readonly BankPayment[]
}

const RATE_DIGITS = 6
const NAMESPACE = 'urn:iso:std:iso:20022:tech:xsd:pain.001.001.09'
/** The clearing system of routing numbers. */
const US_CLEARING = 'USABA'

/** Cents in the file's currency, rounded down. `rate`: EUR for one USD, with at most six decimals; null: USD. */
export function convertCents(amount: NanoUsd, rate: string | null): number {
  const cents = centsOf(amount)
  if (cents === undefined) throw new Error('a payout is not a whole number of cents')
  if (rate === null) return cents
  const [whole = '0', fraction = ''] = rate.split('.')
  const scaled = BigInt(whole) * 10n ** BigInt(RATE_DIGITS) + BigInt(fraction.padEnd(RATE_DIGITS, '0'))
  return Number((BigInt(cents) * scaled) / 10n ** BigInt(RATE_DIGITS))
}

export function sumCents(payments: readonly Pick<BankPayment, 'cents'>[]): number {
  return payments.reduce((sum, { cents }) => sum + cents, 0)
}

export function writeCsv({ currency, payments }: BankFile): string {
  const columns = ['payout_id', 'holder', 'iban', 'bic', 'account_number', 'routing_number', 'amount', 'currency']
  const rows = payments.map(({ payoutId, cents, account }) => {
    const numbers =
      'iban' in account
        ? [account.iban, account.bic ?? '', '', '']
        : ['', '', account.accountNumber, account.routingNumber]
    return [payoutId, textCell(account.holder), ...numbers, decimalOf(cents), currency]
  })
  return [columns, ...rows].map(csvRow).join('')
}

export function writePain001(file: BankFile, debtor: DebtorAccount): string {
  const { runId, at, currency, payments } = file
  const counts =
    element('NbOfTxs', text(String(payments.length))) + element('CtrlSum', text(decimalOf(sumCents(payments))))
  const header = element(
    'GrpHdr',
    element('MsgId', text(runId)) +
      element('CreDtTm', text(formatInstant(at))) +
      counts +
      element('InitgPty', element('Nm', text(debtor.name))),
  )
  const debit = element(
    'PmtInf',
    element('PmtInfId', text(runId)) +
      element('PmtMtd', 'TRF') +
      counts +
      element('ReqdExctnDt', element('Dt', text(formatDay(at)))) +
      element('Dbtr', element('Nm', text(debtor.name))) +
      element('DbtrAcct', element('Id', element('IBAN', text(debtor.iban)))) +
      element('DbtrAgt', agentOf(debtor.bic)) +
      element('ChrgBr', 'SLEV') +
      payments.map((payment) => creditOf(payment, currency)).join(''),
  )
  const document = element('CstmrCdtTrfInitn', header + debit)
  return `<?xml version="1.0" encoding="UTF-8"?>\n<Document xmlns="${NAMESPACE}">${document}</Document>\n`
}

function creditOf({ payoutId, cents, account }: BankPayment, currency: string): string {
  const [agent, number] =
    'iban' in account
      ? [agentOf(account.bic), element('IBAN', text(account.iban))]
      : [routedAgentOf(account.routingNumber), element('Othr', element('Id', text(account.accountNumber)))]
  return element(
    'CdtTrfTxInf',
    element('PmtId', element('EndToEndId', text(payoutId))) +
      element('Amt', `<InstdAmt Ccy="${currency}">${decimalOf(cents)}</InstdAmt>`) +
      element('CdtrAgt', agent) +
      element('Cdtr', element('Nm', text(account.holder))) +
      element('CdtrAcct', element('Id', number)) +
      element('RmtInf', element('Ustrd', text(`Payout ${payoutId}`))),
  )
}

function agentOf(bic: string | null): string {
  const id = bic === null ? element('Othr', element('Id', 'NOTPROVIDED')) : element('BICFI', text(bic))
  return element('FinInstnId', id)
}

function routedAgentOf(routingNumber: string): string {
  const system = element('ClrSysId', element('Cd', US_CLEARING))
  return element('FinInstnId', element('ClrSysMmbId', system + element('MmbId', text(routingNumber))))
}

function element(name: string, content: string): string {
  return `<${name}>${content}</${name}>`
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&apos;',
}

/** XML has no other control characters, not even escaped. */
function text(value: string): string {
  return value.replaceAll(/[\p{Cc}\uFFFE\uFFFF]|\p{Cs}/gu, ' ').replaceAll(/[&<>"']/g, (char) => entities[char] ?? '')
}

/** `812.40` */
export function decimalOf(cents: number): string {
  const digits = String(cents).padStart(3, '0')
  return `${digits.slice(0, -2)}.${digits.slice(-2)}`
}
