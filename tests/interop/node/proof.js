// The program of KafkaJS for tests/proofs/postgres: `node proof.js BOOTSTRAP TOPIC SEED`; what it prints: lines.py there.
//
// A transaction of KafkaJS fails with the connection that its commit or its offsets were sent on, and its producer with
// it. So after each error a new producer ends what the last one left open, and an offset that a writer commits with each
// of its transactions says what became of it.
'use strict'

const readline = require('node:readline')
const { Kafka, logLevel } = require('kafkajs')

// Of two transactions that overlapped in a partition and were both aborted, KafkaJS hands one over: its filter takes one
// from the list of aborted ones for each record (src/consumer/filterAbortedMessages.js).
const WRITERS = 1
const PARTITIONS = 4
const [bootstrap, topic] = process.argv.slice(2)
const kafka = new Kafka({
  clientId: 'proof', brokers: bootstrap.split(','), logLevel: logLevel.NOTHING, requestTimeout: 5000,
  retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 1000 },
})
let stops = false
let hasEnded = false
let end = () => {}
const ended = new Promise(resolve => { end = resolve })

const say = (...words) => console.log(words.join(' '))
const report = error => say('error', error.type || error.name)
const pause = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds))

// A value that `make` returns, asked for until there is one.
async function untilDone(make) {
  for (;;) {
    try {
      return await make()
    } catch (error) {
      report(error)
      await pause(50)
    }
  }
}

// A producer that has ended what the one before it left open.
const producerOf = name => untilDone(async () => {
  const producer = kafka.producer({
    transactionalId: `${topic}-${name}`, idempotent: true, maxInFlightRequests: 1, transactionTimeout: 30000,
  })
  try {
    await producer.connect()
    await (await producer.transaction()).abort()
    return producer
  } catch (error) {
    await producer.disconnect()
    throw error
  }
})

// --- transactions ----------------------------------------------------------------------------------------------------

async function write(number) {
  let producer = await producerOf(number)
  for (let count = 1, life = 1, transaction = 1; !stops; count++, transaction++) {
    const name = `${number}.${life}.${transaction}`
    const commits = transaction % 7 !== 0
    const begun = Date.now()
    let outcome = commits ? 'committed' : 'aborted'
    try {
      await transact(producer, name, number, count, commits)
    } catch (error) {
      report(error)
      await producer.disconnect().catch(report)
      producer = await producerOf(number)
      outcome = await committed(number) === count ? 'committed' : 'aborted'
      life++
      transaction = 0
    }
    say('end', name, outcome, Date.now() - begun)
    await pause(Math.random() * 20)
  }
  await producer.disconnect()
}

async function transact(producer, name, number, count, commits) {
  const transaction = await producer.transaction()
  const messages = Array.from({ length: PARTITIONS }, (_, partition) => ({ partition, value: name }))
  await transaction.send({ topic, messages })
  const topics = [{ topic, partitions: [{ partition: 0, offset: `${count}` }] }]
  await transaction.sendOffsets({ consumerGroupId: `${topic}-${number}`, topics })
  await (commits ? transaction.commit() : transaction.abort())
}

// The count of the last transaction of a writer that was committed.
const committed = number => untilDone(async () => {
  const admin = kafka.admin()
  try {
    await admin.connect()
    const [{ partitions }] = await admin.fetchOffsets({ groupId: `${topic}-${number}`, topics: [topic] })
    return Number(partitions.find(({ partition }) => partition === 0).offset)
  } finally {
    await admin.disconnect()
  }
})

// --- consumers -------------------------------------------------------------------------------------------------------

// Hands batches over until one fails, or the consumer does. By itself KafkaJS would go on from positions in its memory,
// which say nothing about transactions.
async function consume(groupId, eachBatch) {
  const consumer = kafka.consumer({
    groupId, sessionTimeout: 6000, heartbeatInterval: 200, maxWaitTimeInMs: 100,
    retry: { restartOnFailure: async () => false },
  })
  let failed = null
  try {
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    const failing = new Promise(resolve => {
      const fail = error => {
        failed = failed || error
        resolve()
      }
      consumer.on(consumer.events.CRASH, ({ payload }) => fail(payload.error))
      consumer.run({
        autoCommit: false,
        eachBatch: async ({ batch }) => {
          if (failed) throw failed
          try {
            await eachBatch(batch)
          } catch (error) {
            fail(error)
            throw error
          }
        },
      }).catch(fail)
    })
    await Promise.race([failing, ended])
  } catch (error) {
    failed = failed || error
  }
  if (failed) report(failed)
  await consumer.disconnect().catch(report)
}

// KafkaJS does not wait for open transactions (no KIP-447): the last one is ended before a consumer asks where to begin.
async function copy() {
  while (!hasEnded) {
    const producer = await producerOf('copier')
    await consume(topic, batch => copyBatch(producer, batch))
    await producer.disconnect().catch(report)
  }
}

async function copyBatch(producer, { partition, messages }) {
  const transaction = await producer.transaction()
  const copies = messages.map(({ value }) => ({ partition, value: `${value} ${partition}` }))
  await transaction.send({ topic: `${topic}-copies`, messages: copies })
  const offset = (BigInt(messages[messages.length - 1].offset) + 1n).toString()
  await transaction.sendOffsets({ consumerGroupId: topic, topics: [{ topic, partitions: [{ partition, offset }] }] })
  await transaction.commit()
}

// KafkaJS has no reader without a group: this one commits nothing, and is handed all of it again after an error.
async function follow() {
  const next = new Map()
  while (!hasEnded) {
    await consume(`${topic}-follower`, async ({ partition, messages }) => {
      for (const message of messages) {
        const offset = Number(message.offset)
        if (offset < (next.get(partition) || 0)) continue
        next.set(partition, offset + 1)
        say('read', partition, offset, message.value)
      }
    })
  }
}

async function main() {
  const writers = Array.from({ length: WRITERS }, (_, number) => write(number))
  const others = [copy(), follow()]
  const input = readline.createInterface({ input: process.stdin })
  const closed = new Promise(resolve => input.once('close', resolve))
  await new Promise(resolve => input.once('line', resolve))
  stops = true
  await Promise.all(writers)
  say('stopped')
  await closed
  hasEnded = true
  end()
  await Promise.all(others)
}

main().then(() => process.exit(0), error => {
  console.error(error)
  process.exit(1)
})
