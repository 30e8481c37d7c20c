/**
 * Text as it is spoken. `foldLetters` reduces Latin letters to the plain ones that English voices know and spells out
 * Greek ones; other scripts are not supported. `spellOut` also replaces numbers, symbols and abbreviations with words,
 * for a voice that knows only words and would read `3.14` as noise.
 */
import { sayDigits, sayNumber, sayOrdinal, sayTime, sayYear } from './english-number.ts'

const greek =
  'alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma sigma tau upsilon phi ' +
  'chi psi omega'
const greekNames = new Map(greek.split(' ').map((name, i) => [String.fromCodePoint(0x3b1 + i), name]))

/** Letters that do not decompose into a plain one. */
const plainLetters: Readonly<Record<string, string>> = {
  ß: 'ss',
  æ: 'ae',
  œ: 'oe',
  ø: 'o',
  ð: 'd',
  þ: 'th',
  ł: 'l',
  đ: 'd',
  ħ: 'h',
  ı: 'i',
  ŋ: 'ng',
  ŧ: 't',
  ƒ: 'f',
  ə: 'a',
}

export function foldLetters(text: string): string {
  return text
    .replaceAll(/[°º](?=\s*[CF]?\b|$)/g, ' degrees ')
    .replaceAll(/(?<=\d)\s*\u2013\s*(?=\d)/g, ' to ')
    .normalize('NFKD')
    .replaceAll(/\p{Mn}+/gu, '')
    .replaceAll(/[‘’ʼ`´]/g, "'")
    .replaceAll(/[“”„«»]/g, '"')
    .replaceAll(/\s*[—–―]\s*/g, ', ')
    .replaceAll('…', '...')
    .replaceAll(/[^\p{ASCII}]/gu, (character) => {
      const small = character.toLowerCase()
      const name = greekNames.get(small)
      if (name !== undefined) return ` ${name} `
      const plain = plainLetters[small] ?? character
      return small === character ? plain : plain.toUpperCase()
    })
}

/** The letters of a folded text that no English voice can pronounce, each once. */
export function findUnspeakable(folded: string): string[] {
  return [...new Set(folded.match(/[^\p{ASCII}]/gu) ?? [])].filter((character) => /\p{L}/u.test(character))
}

export function hasWords(folded: string): boolean {
  return /[a-z0-9]/i.test(folded)
}

const abbreviations: Readonly<Record<string, string>> = {
  'mr.': 'mister',
  'mrs.': 'missus',
  'ms.': 'miz',
  'dr.': 'doctor',
  'prof.': 'professor',
  'st.': 'saint',
  'mt.': 'mount',
  'gen.': 'general',
  'capt.': 'captain',
  'lt.': 'lieutenant',
  'sgt.': 'sergeant',
  'rev.': 'reverend',
  'sen.': 'senator',
  'gov.': 'governor',
  'jr.': 'junior',
  'sr.': 'senior',
  'vs.': 'versus',
  'etc.': 'et cetera.',
  'e.g.': 'for example',
  'i.e.': 'that is',
  'approx.': 'approximately',
  'inc.': 'incorporated',
  'ltd.': 'limited',
  'a.m.': 'A M',
  'p.m.': 'P M',
}
const abbreviation = new RegExp(
  `(?<![\\w.])(?:${Object.keys(abbreviations)
    .map((key) => key.replaceAll('.', '\\.'))
    .join('|')})(?!\\w)`,
  'gi',
)

const money: Readonly<Record<string, readonly [one: string, many: string, cent: string, cents: string]>> = {
  $: ['dollar', 'dollars', 'cent', 'cents'],
  '€': ['euro', 'euros', 'cent', 'cents'],
  '£': ['pound', 'pounds', 'penny', 'pence'],
  '¥': ['yen', 'yen', 'sen', 'sen'],
}
const NUMBER = String.raw`(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?`
const amount = new RegExp(String.raw`([$€£¥])\s?(${NUMBER})(\s(?:thousand|million|billion|trillion)\b)?`, 'gi')
const number = new RegExp(NUMBER, 'g')

const signs: ReadonlyArray<readonly [RegExp, string]> = [
  [/%/g, ' percent '],
  [/&/g, ' and '],
  [/@/g, ' at '],
  [/(?<=\d)\s*[x×]\s*(?=\d)/g, ' times '],
  [/(?<=\d)\s*:\s*(?=\d)/g, ' to '],
  [/\+/g, ' plus '],
  [/=/g, ' equals '],
  [/(?<=\w)\/(?=\w)/g, ' slash '],
  [/#(?=\d)/g, ' number '],
  [/(?<=^|[\s(])-(?=\.?\d)/g, ' minus '],
  [/(?<=[a-z])\.(?=[a-z])/gi, ' dot '],
]

/** Converts a folded text to English words, commas and sentence marks. */
export function spellOut(folded: string): string {
  let text = calmCapitals(folded)
    .replaceAll(abbreviation, (match) => abbreviations[match.toLowerCase()] ?? match)
    .replaceAll(/\bno\.\s?(?=\d)/gi, 'number ')
    .replaceAll(amount, (_, sign: string, value: string, scale?: string) => sayAmount(sign, value, scale))
    .replaceAll(/\b([01]?\d|2[0-3]):([0-5]\d)\b/g, (_, h: string, m: string) => sayTime(Number(h), Number(m)))
    .replaceAll(/\b(\d{1,15})(?:st|nd|rd|th)\b/gi, (_, digits: string) => sayOrdinal(digits))
  for (const [sign, word] of signs) text = text.replaceAll(sign, word)
  return text
    .replaceAll(/(?<![\d.,])(1[1-9]|20)\d\d(?![\d.,]*\d)/g, (year) => sayYear(Number(year)))
    .replaceAll(number, (digits) => ` ${sayNumber(digits)} `)
    .replaceAll(/\d+/g, (digits) => ` ${sayDigits(digits)} `)
    .replaceAll(/\.{2,}/g, '…')
    .replaceAll(/[;:()[\]{}]+/g, ', ')
    .replaceAll(/[^a-z',.!?… ]+/gi, ' ')
    .replaceAll(/ +/g, ' ')
    .replaceAll(/(?<![a-z])'+|'+(?![a-z])/gi, ' ')
    .replaceAll(/\s+(?=[,.!?…])/g, '')
    .replaceAll(/([,.!?…])(?:[,.!?…\s]*[,.!?…])?/g, '$1')
    .replaceAll(/^[\s,.!?…]+|\s+$/g, '')
    .replaceAll(/\s+/g, ' ')
}

/** The voice spells out words in capitals: right for `FBI`, wrong for `WARNING` or a text in capitals. */
function calmCapitals(text: string): string {
  const words = text.match(/[a-z]{2,}/gi) ?? []
  const isLoud = words.length > 2 && words.every((word) => word === word.toUpperCase())
  return text.replaceAll(isLoud ? /[A-Z]{2,}/g : /[A-Z]{6,}/g, (word) => word.toLowerCase())
}

function sayAmount(sign: string, value: string, scale: string | undefined): string {
  const [one, many, cent, cents] = money[sign] ?? ['', '', '', '']
  if (scale !== undefined) return ` ${sayNumber(value)}${scale} ${many} `
  const [whole = '', fraction = ''] = value.replaceAll(',', '').split('.')
  if (fraction !== '' && fraction.length !== 2) return ` ${sayNumber(value)} ${many} `
  const units = Number.parseInt(fraction === '' ? '0' : fraction, 10)
  const coins = units === 0 ? '' : `${sayNumber(String(units))} ${units === 1 ? cent : cents}`
  if (whole === '0' && coins !== '') return ` ${coins} `
  return ` ${sayNumber(whole)} ${whole === '1' ? one : many}${coins === '' ? '' : ` and ${coins}`} `
}
