/** Bank accounts of suppliers: an IBAN, or an account number with the routing number of a bank in the US. */

export type BankAccount = {
  /** Who owns the account, as the bank knows it. */
  readonly holder: string
} & (
  | { readonly iban: string; readonly bic: string | null }
  | { readonly accountNumber: string; readonly routingNumber: string }
)

export const MAX_HOLDER_CHARS = 70
const IBAN = /^[A-Z]{2}\d{2}[A-Z0-9]{11,30}$/
const BIC = /^[A-Z0-9]{4}[A-Z]{2}[A-Z0-9]{2}([A-Z0-9]{3})?$/
const ACCOUNT_NUMBER = /^[A-Z0-9]{4,17}$/
const ROUTING_NUMBER = /^\d{9}$/
/** They identify nobody, yet tell two accounts of one owner apart. */
const HINT_CHARS = 4
/** The weights of the check digit of the American Bankers Association. */
const routingWeights = [3, 7, 1, 3, 7, 1, 3, 7, 1] as const

/** Reads it as people write it, with spaces, or as banks do. undefined: its check digits are wrong. */
export function readIban(text: string): string | undefined {
  const iban = compact(text)
  return IBAN.test(iban) && remainderOf97(`${iban.slice(4)}${iban.slice(0, 4)}`) === 1 ? iban : undefined
}

export function readBic(text: string): string | undefined {
  const bic = compact(text)
  return BIC.test(bic) ? bic : undefined
}

export function readAccountNumber(text: string): string | undefined {
  const number = compact(text).replaceAll('-', '')
  return ACCOUNT_NUMBER.test(number) ? number : undefined
}

/** undefined: its check digit is wrong. */
export function readRoutingNumber(text: string): string | undefined {
  const number = compact(text)
  if (!ROUTING_NUMBER.test(number)) return undefined
  const sum = routingWeights.reduce((total, weight, at) => total + weight * Number(number[at]), 0)
  return sum % 10 === 0 && sum > 0 ? number : undefined
}

/** Returns the part that people may see. */
export function bankHint(account: BankAccount): string {
  const number = 'iban' in account ? account.iban : account.accountNumber
  return `…${number.slice(-HINT_CHARS)}`
}

function compact(text: string): string {
  return text.replaceAll(/\s+/g, '').toUpperCase()
}

/** Letters count as 10 to 35. */
function remainderOf97(text: string): number {
  let remainder = 0
  for (const char of text) {
    const value = Number.parseInt(char, 36)
    remainder = (remainder * (value > 9 ? 100 : 10) + value) % 97
  }
  return remainder
}
