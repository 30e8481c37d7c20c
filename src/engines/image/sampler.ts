/**
 * Turns noise into an image by following the model's velocity from time 1 to time 0. Each step evaluates the model once
 * and uses the previous step (second-order Adams-Bashforth with variable steps), so twice the steps give a quarter of
 * the error.
 */

export interface Sampling {
  /** The noise, at time 1. Not modified. */
  readonly noise: Float32Array
  readonly steps: number
  /** Above 1: shorter steps near the noise, where the image is decided, and longer ones towards the end. */
  readonly shift: number
  /** The derivative with respect to time. */
  readonly velocity: (latent: Float32Array, time: number) => Promise<Float32Array>
  /** Called after each step, counted from 1. The next step waits for it. */
  readonly onStep: (step: number, preview: Preview) => Promise<void> | void
  /** Checked before each step; throws its reason. */
  readonly signal: AbortSignal
}

/** The image as the model expects it at this step, by following its current velocity straight to time 0. */
export type Preview = () => Float32Array

export async function sample({ noise, steps, shift, velocity, onStep, signal }: Sampling): Promise<Float32Array> {
  const timeOf = (step: number): number => {
    const remaining = 1 - step / steps
    return (shift * remaining) / (1 + (shift - 1) * remaining)
  }
  const latent = Float32Array.from(noise)
  let before: { readonly velocity: Float32Array; readonly length: number } | undefined
  for (let step = 0; step < steps; step++) {
    signal.throwIfAborted()
    const now = await velocity(latent, timeOf(step))
    const length = timeOf(step + 1) - timeOf(step)
    const lean = before === undefined ? 0 : length / (2 * before.length)
    for (let i = 0; i < latent.length; i++) {
      const value = now[i] ?? 0
      latent[i] = (latent[i] ?? 0) + length * (value + lean * (value - (before?.velocity[i] ?? 0)))
    }
    before = { velocity: now, length }
    const remaining = timeOf(step + 1)
    await onStep(step + 1, () => latent.map((value, i) => value - remaining * (now[i] ?? 0)))
  }
  return latent
}
