/** Numbers as English words. A number with too many digits is read digit by digit. */

const small = (
  'zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen ' +
  'eighteen nineteen'
).split(' ')
const tens = '- - twenty thirty forty fifty sixty seventy eighty ninety'.split(' ')
const thousands = ['', ' thousand', ' million', ' billion', ' trillion']
/** Up to 999 trillion. */
const MAX_DIGITS = 15

const ordinals: Readonly<Record<string, string>> = {
  one: 'first',
  two: 'second',
  three: 'third',
  five: 'fifth',
  eight: 'eighth',
  nine: 'ninth',
  twelve: 'twelfth',
}

/** `1,204.50` → `one thousand two hundred four point five zero`. Accepts digits, commas and one full stop. */
export function sayNumber(text: string): string {
  const [whole = '', fraction] = text.replaceAll(',', '').split('.')
  const before = isOneNumber(whole) ? sayWhole(Number.parseInt(whole, 10)) : sayDigits(whole)
  return [before, ...(fraction === undefined || fraction === '' ? [] : ['point', sayDigits(fraction)])]
    .filter((part) => part !== '')
    .join(' ')
}

/** `3` (of `3rd`) → `third`. */
export function sayOrdinal(digits: string): string {
  const words = sayNumber(digits)
  const [last = ''] = /[a-z]+$/.exec(words) ?? []
  const ordinal = ordinals[last] ?? (last.endsWith('y') ? `${last.slice(0, -1)}ieth` : `${last}th`)
  return words.slice(0, words.length - last.length) + ordinal
}

/** Reads four digits from 1100 to 2099 without a comma as a year: `nineteen eighty four`, `two thousand nine`. */
export function sayYear(year: number): string {
  const [century, yearOfCentury] = [Math.trunc(year / 100), year % 100]
  if (century === 20 && yearOfCentury < 10) return sayWhole(year)
  if (yearOfCentury === 0) return `${sayWhole(century)} hundred`
  return `${sayWhole(century)} ${yearOfCentury < 10 ? 'oh ' : ''}${sayWhole(yearOfCentury)}`
}

/** `3`, `05` → `three oh five`. */
export function sayTime(hours: number, minutes: number): string {
  if (minutes === 0) return hours > 12 || hours === 0 ? `${sayWhole(hours)} hundred` : `${sayWhole(hours)} o'clock`
  return `${sayWhole(hours)} ${minutes < 10 ? 'oh ' : ''}${sayWhole(minutes)}`
}

export function sayDigits(digits: string): string {
  return Array.from(digits)
    .map((digit) => small[Number.parseInt(digit, 10)] ?? '')
    .join(' ')
}

/** A leading zero is part of a code or a telephone number. */
function isOneNumber(digits: string): boolean {
  return digits.length <= MAX_DIGITS && (digits === '0' || !digits.startsWith('0')) && digits !== ''
}

function sayWhole(value: number): string {
  if (value === 0) return 'zero'
  const groups: string[] = []
  for (let remaining = value, i = 0; remaining > 0; remaining = Math.trunc(remaining / 1_000), i++) {
    if (remaining % 1_000 > 0) groups.unshift(`${sayHundreds(remaining % 1_000)}${thousands[i] ?? ''}`)
  }
  return groups.join(' ')
}

function sayHundreds(value: number): string {
  const [hundreds, remainder] = [Math.trunc(value / 100), value % 100]
  const ten = tens[Math.trunc(remainder / 10)] ?? ''
  const low = remainder < 20 ? small[remainder] : remainder % 10 === 0 ? ten : `${ten} ${small[remainder % 10] ?? ''}`
  const words = [...(hundreds > 0 ? [`${small[hundreds] ?? ''} hundred`] : []), ...(remainder > 0 ? [low ?? ''] : [])]
  return words.join(' ')
}
