/** A supplier's fee as it is typed: percent with two decimals at most. */
const feeText = /^(100(\.0{1,2})?|\d{1,2}(\.\d{1,2})?)$/

/** undefined: it is no fee. */
export function feeOf(text: string): number | undefined {
  return feeText.test(text) ? Number.parseFloat(text) : undefined
}
