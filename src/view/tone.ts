/** Colour of a state. The label carries the meaning; the tone only helps the eye. */
export type Tone = 'good' | 'warn' | 'bad' | 'info' | 'plain'
