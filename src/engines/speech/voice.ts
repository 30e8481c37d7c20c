/**
 * The voices that come with Berth, and how a request selects one. The default is the neural voice: it sounds best and,
 * once loaded (some seconds after the start), synthesises about fifteen times faster than real time. The others are
 * available at once.
 */
import { failField, ok, type Result } from '../../contract/result.ts'

/** Each family has its own thread, so the fast one does not wait while the other loads. */
export type VoiceFamily = 'vits' | 'flite'

export type SampleRate = 44_100 | 32_000
export type Kbps = 64 | 48 | 40 | 32

export interface Voice {
  readonly speaker: string
  readonly family: VoiceFamily
  /** Its name in the synthesizer. */
  readonly internalName: string
  readonly language: string
  readonly sampleRate: SampleRate
}

export interface FamilyFacts {
  /** Speeds at which the synthesizer sounds good. Beyond them the sound is stretched or shortened afterwards. */
  readonly speeds: { readonly min: number; readonly max: number }
  /** Maximum length of a piece. Time and memory of the neural voice grow with its square. */
  readonly pieceChars: number
  readonly mp3Kbps: Kbps
  /** Approximate, at speed 1. */
  readonly charsPerSecond: number
}

const US_ENGLISH = 'en-US'

export const voices: readonly Voice[] = [
  { speaker: 'neural', family: 'vits', internalName: 'MALE', language: US_ENGLISH, sampleRate: 44_100 },
  { speaker: 'slt', family: 'flite', internalName: 'slt', language: US_ENGLISH, sampleRate: 32_000 },
  { speaker: 'rms', family: 'flite', internalName: 'rms', language: US_ENGLISH, sampleRate: 32_000 },
  { speaker: 'awb', family: 'flite', internalName: 'awb', language: US_ENGLISH, sampleRate: 32_000 },
  { speaker: 'kal', family: 'flite', internalName: 'kal16', language: US_ENGLISH, sampleRate: 32_000 },
]

export const families: Readonly<Record<VoiceFamily, FamilyFacts>> = {
  vits: { speeds: { min: 0.7, max: 2 }, pieceChars: 160, mp3Kbps: 64, charsPerSecond: 11 },
  flite: { speeds: { min: 0.1, max: 3 }, pieceChars: 240, mp3Kbps: 48, charsPerSecond: 15 },
}

/** Without both: the first voice. With a language only: its first voice. Ignores case and treats `_` like `-`. */
export function findVoice(speaker: string | undefined, language: string | undefined): Result<Voice> {
  const inLanguage = voices.filter((voice) => language === undefined || speaks(voice, language))
  if (inLanguage.length === 0) {
    const available = [...new Set(voices.flatMap((voice) => [voice.language.split('-')[0] ?? '', voice.language]))]
    return failField(['language'], 'not_available', { name: 'language', available })
  }
  const match = speaker === undefined ? inLanguage[0] : inLanguage.find((voice) => isCalled(voice, speaker))
  if (match !== undefined) return ok(match)
  return failField(['speaker'], 'not_available', {
    name: 'speaker',
    available: inLanguage.map((voice) => voice.speaker),
  })
}

/** Larger MP3s are encoded at a lower bit rate, since clients limit the size of an answer. */
const MAX_MP3_BYTES = 45_000_000
const lowerKbps = [48, 40, 32] as const

export function chooseKbps(voice: Voice, chars: number, speed: number): Kbps {
  const { mp3Kbps, charsPerSecond } = families[voice.family]
  const seconds = chars / charsPerSecond / speed
  const fits = (kbps: Kbps): boolean => seconds * kbps * 125 <= MAX_MP3_BYTES
  return fits(mp3Kbps) ? mp3Kbps : (lowerKbps.find((kbps) => kbps < mp3Kbps && fits(kbps)) ?? 32)
}

function speaks(voice: Voice, language: string): boolean {
  const tag = language.toLowerCase().replaceAll('_', '-')
  const own = voice.language.toLowerCase()
  return own === tag || own.startsWith(`${tag}-`)
}

/**
 * Default English voices of other services, and the OpenAI names, which OpenAI clients must send. All of them select the
 * first voice.
 */
const defaultAliases: ReadonlySet<string> = new Set(
  'default en-us en-default alloy ash ballad cedar coral echo fable marin nova onyx sage shimmer verse'.split(' '),
)

function isCalled(voice: Voice, speaker: string): boolean {
  const name = speaker.toLowerCase().replaceAll('_', '-')
  return voice.speaker === name || (voice === voices[0] && defaultAliases.has(name))
}
