/** Fields for replicas and scaling, for a new deployment and for a change. */
import { optionalNumber } from '../../form/read.ts'
import type { Form } from '../../form/use-form.ts'
import { TextField } from '../../ui/field.tsx'

export interface ScalingValues {
  readonly min: string
  readonly max: string
  readonly target: string
  readonly upDelay: string
  readonly downDelay: string
  readonly idle: string
}

export const scalingPaths = {
  min: 'replicas.min',
  max: 'replicas.max',
  target: 'scaling.targetOutstanding',
  upDelay: 'scaling.upDelaySeconds',
  downDelay: 'scaling.downDelaySeconds',
  idle: 'scaling.idleSeconds',
} as const satisfies Record<keyof ScalingValues, string>

/** An empty field is the default. */
export function scalingOf({ min, max, target, upDelay, downDelay, idle }: ScalingValues) {
  return {
    replicas: { min: optionalNumber(min), max: optionalNumber(max) },
    scaling: {
      targetOutstanding: optionalNumber(target),
      upDelaySeconds: optionalNumber(upDelay),
      downDelaySeconds: optionalNumber(downDelay),
      idleSeconds: optionalNumber(idle),
    },
  }
}

export function ScalingFields({ form }: { form: Pick<Form<ScalingValues>, 'text'> }) {
  return (
    <>
      <TextField
        label="Minimum replicas"
        inputMode="numeric"
        placeholder="0"
        hint="With 0, the first request starts one and waits for it."
        {...form.text('min')}
      />
      <TextField label="Maximum replicas" inputMode="numeric" placeholder="1" {...form.text('max')} />
      <TextField
        label="Requests per replica"
        inputMode="decimal"
        placeholder="4"
        hint="Waiting or running, that scaling aims for."
        {...form.text('target')}
      />
      <TextField label="Seconds before adding replicas" inputMode="numeric" placeholder="5" {...form.text('upDelay')} />
      <TextField
        label="Seconds before removing replicas"
        inputMode="numeric"
        placeholder="120"
        {...form.text('downDelay')}
      />
      <TextField
        label="Idle seconds before scaling to zero"
        inputMode="numeric"
        placeholder="300"
        {...form.text('idle')}
      />
    </>
  )
}
