/** VAT IDs: their form and checksum, and their country. Whether one exists, only a tax office knows. */
import { checkVAT, countries } from 'jsvat'

/** Prefixes that are not the code of their country: Greece, and Northern Ireland in the trade of goods. */
const otherPrefixes: Readonly<Record<string, string>> = { EL: 'GR', XI: 'GB' }

export function countryOfVatId(vatId: string): string {
  const prefix = vatId.slice(0, 2)
  return otherPrefixes[prefix] ?? prefix
}

/** Without spaces, dots and hyphens, in capitals. undefined: it cannot be one. */
export function parseVatId(text: string): string | undefined {
  const vatId = text.toUpperCase().replace(/[\s.-]/g, '')
  if (!/^[A-Z]{2}[A-Z0-9]{2,18}$/.test(vatId)) return undefined
  // It has the checksum of a British one.
  const checked = vatId.startsWith('XI') ? `GB${vatId.slice(2)}` : vatId
  return checkVAT(checked, countries).isValid ? vatId : undefined
}
