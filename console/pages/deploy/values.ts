/** The fields of a new deployment. Empty ones have the default. */
import { emptySpec } from '../deployment/spec-fields.tsx'

export const emptyDeploy = {
  ...emptySpec,
  name: '',
  kind: 'chat',
  forEveryone: false as boolean,
  min: '',
  max: '',
  target: '',
  upDelay: '',
  downDelay: '',
  idle: '',
  budget: '',
}
export type DeployValues = typeof emptyDeploy
