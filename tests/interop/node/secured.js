// KafkaJS as a secured client: one job (tests/support/security/secured_jobs.py) on standard input, what became of it on standard
// output.
'use strict'

const fs = require('fs')
const { Kafka, logLevel } = require('kafkajs')

const job = JSON.parse(fs.readFileSync(0, 'utf8'))
const { protocol, authority_path: authority, mechanism, user: username, password, token } = job.security
const kafka = new Kafka({
  brokers: [job.bootstrap], logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 50, maxRetryTime: 200, retries: 5 },
  ssl: protocol.endsWith('SSL') ? { ca: [fs.readFileSync(authority, 'utf8')] } : undefined,
  sasl: mechanism === '' ? undefined : mechanism === 'OAUTHBEARER'
    ? { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: token }) }
    : { mechanism: mechanism.toLowerCase(), username, password },
})

const scenes = {
  async produce() {
    const producer = kafka.producer()
    await producer.connect()
    await producer.send({ topic: job.topic, messages: [{ value: job.value }] })
    return []
  },

  async transaction() {
    const producer = kafka.producer({ transactionalId: job.name, idempotent: true, maxInFlightRequests: 1 })
    await producer.connect()
    const transaction = await producer.transaction()
    await transaction.send({ topic: job.topic, messages: [{ value: job.value }] })
    await transaction.commit()
    return []
  },

  async consume() {
    const consumer = kafka.consumer({ groupId: job.name, maxWaitTimeInMs: 100 })
    const values = []
    await consumer.connect()
    await consumer.subscribe({ topics: [job.topic], fromBeginning: true })
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
      consumer.run({
        autoCommit: false,
        eachMessage: async ({ topic, partition, message }) => {
          values.push(message.value.toString())
          if (values.length < job.count) return
          consumer.commitOffsets([{ topic, partition, offset: `${Number(message.offset) + 1}` }]).then(resolve, reject)
        },
      }).catch(reject)
    })
    await consumer.disconnect()
    return values
  },
}

// Its errors wrap one another; the innermost says what happened.
function named(error) {
  const cause = error.cause || error.originalError
  return cause ? named(cause) : `${error.type || error.name}: ${error.message}`
}

scenes[job.scene]().then(
  values => console.log(['ok', ...values].join(' ')),
  error => console.log(named(error)),
).finally(() => process.exit())
