/** The Lambda driver passes the driver suite at its simulator. */
import { LambdaSim } from '../../../sim/clouds/lambda/cloud.ts'
import { cloudConformance } from '../../../../test/harness/cloud-conformance.ts'
import { lambda } from './cloud.ts'

const region = 'us-east-1'
const type = 'gpu_1x_h100_sxm5'

cloudConformance({
  vendor: lambda,
  makeBench: (clock) => {
    const sim = new LambdaSim({ clock })
    return {
      server: sim.server,
      credentials: { apiKey: sim.apiKey },
      offer: { region, type, gpus: 1, paysUsdPerGpuHour: '3.29' },
      operations: { create: 'launchInstance', list: 'listInstances' },
      noCapacity: {
        kind: 'answer',
        answer: {
          status: 400,
          body: { error: { code: 'instance-operations/launch/insufficient-capacity', message: 'Sold out.' } },
        },
      },
      failBoot: () => void (sim.bootsFail = 1),
      lagList: () => void (sim.listLagMs = lambda.listLagMs),
      loseMachine: () => void (sim.preemptAfterMs = 120_000),
      refuseDestroy: () => void (sim.terminateRefusals = 1),
      setCapacity: (units) => sim.setCapacity(type, region, units),
      raiseCost: () => sim.setPrice(type, 330),
      withdraw: () => void sim.types.delete(type),
      leftovers: () => sim.leftovers(),
    }
  },
})
