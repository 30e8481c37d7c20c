/** The formats in which clients ask for speech, and their media types. */
export const audioTypes = {
  mp3: 'audio/mpeg',
  opus: 'audio/ogg',
  aac: 'audio/aac',
  flac: 'audio/flac',
  wav: 'audio/wav',
  pcm: 'audio/pcm',
} as const

export type AudioFormat = keyof typeof audioTypes

export const audioFormats = Object.keys(audioTypes) as [AudioFormat, ...AudioFormat[]]

/** Formats that our own speech engine writes. No encoder of AAC for Node has a permissive license: those on npm contain FFmpeg or need a browser. */
export const ownAudioFormats = ['mp3', 'opus', 'flac', 'wav', 'pcm'] as const satisfies readonly AudioFormat[]

export type OwnAudioFormat = (typeof ownAudioFormats)[number]
