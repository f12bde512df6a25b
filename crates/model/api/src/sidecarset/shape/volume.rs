//! The Kubernetes volume as Kruise's libraries (Kubernetes 1.32) know it, and what newer ones add.

use super::Kind::{Bool, Int32, Int64, List, Object, Quantity, String};
use super::container::{FIELD_REF, RESOURCE_FIELD_REF};
use super::meta::{LABEL_SELECTOR, OBJECT_META};
use super::{QUANTITIES, STRING_MAP, STRINGS, Shape, always, if_set, later, or_null, unless_empty};

pub(in super::super) static VOLUME: Shape = Shape::new(&[
    always("name", String),
    if_set("hostPath", Object(&HOST_PATH)),
    if_set("emptyDir", Object(&EMPTY_DIR)),
    if_set("gcePersistentDisk", Object(&GCE_PERSISTENT_DISK)),
    if_set("awsElasticBlockStore", Object(&AWS_ELASTIC_BLOCK_STORE)),
    if_set("gitRepo", Object(&GIT_REPO)),
    if_set("secret", Object(&SECRET)),
    if_set("nfs", Object(&NFS)),
    if_set("iscsi", Object(&ISCSI)),
    if_set("glusterfs", Object(&GLUSTERFS)),
    if_set("persistentVolumeClaim", Object(&PERSISTENT_VOLUME_CLAIM)),
    if_set("rbd", Object(&RBD)),
    if_set("flexVolume", Object(&FLEX)),
    if_set("cinder", Object(&CINDER)),
    if_set("cephfs", Object(&CEPH_FS)),
    if_set("flocker", Object(&FLOCKER)),
    if_set("downwardAPI", Object(&DOWNWARD_API)),
    if_set("fc", Object(&FC)),
    if_set("azureFile", Object(&AZURE_FILE)),
    if_set("configMap", Object(&CONFIG_MAP)),
    if_set("vsphereVolume", Object(&VSPHERE_VIRTUAL_DISK)),
    if_set("quobyte", Object(&QUOBYTE)),
    if_set("azureDisk", Object(&AZURE_DISK)),
    if_set("photonPersistentDisk", Object(&PHOTON_PERSISTENT_DISK)),
    if_set("projected", Object(&PROJECTED)),
    if_set("portworxVolume", Object(&PORTWORX)),
    if_set("scaleIO", Object(&SCALE_IO)),
    if_set("storageos", Object(&STORAGE_OS)),
    if_set("csi", Object(&CSI)),
    if_set("ephemeral", Object(&EPHEMERAL)),
    if_set("image", Object(&IMAGE)),
]);

static HOST_PATH: Shape = Shape::new(&[always("path", String), if_set("type", String)]);

static EMPTY_DIR: Shape = Shape::new(&[unless_empty("medium", String), if_set("sizeLimit", Quantity)]);

static GCE_PERSISTENT_DISK: Shape = Shape::new(&[
    always("pdName", String),
    unless_empty("fsType", String),
    unless_empty("partition", Int32),
    unless_empty("readOnly", Bool),
]);

static AWS_ELASTIC_BLOCK_STORE: Shape = Shape::new(&[
    always("volumeID", String),
    unless_empty("fsType", String),
    unless_empty("partition", Int32),
    unless_empty("readOnly", Bool),
]);

static GIT_REPO: Shape =
    Shape::new(&[always("repository", String), unless_empty("revision", String), unless_empty("directory", String)]);

static SECRET: Shape = Shape::new(&[
    unless_empty("secretName", String),
    unless_empty("items", List(&Object(&KEY_TO_PATH))),
    if_set("defaultMode", Int32),
    if_set("optional", Bool),
]);

static KEY_TO_PATH: Shape = Shape::new(&[always("key", String), always("path", String), if_set("mode", Int32)]);

static NFS: Shape = Shape::new(&[always("server", String), always("path", String), unless_empty("readOnly", Bool)]);

static ISCSI: Shape = Shape::new(&[
    always("targetPortal", String),
    always("iqn", String),
    always("lun", Int32),
    unless_empty("iscsiInterface", String),
    unless_empty("fsType", String),
    unless_empty("readOnly", Bool),
    unless_empty("portals", STRINGS),
    unless_empty("chapAuthDiscovery", Bool),
    unless_empty("chapAuthSession", Bool),
    if_set("secretRef", Object(&LOCAL_OBJECT_REFERENCE)),
    if_set("initiatorName", String),
]);

pub(super) static LOCAL_OBJECT_REFERENCE: Shape = Shape::new(&[unless_empty("name", String)]);

static GLUSTERFS: Shape =
    Shape::new(&[always("endpoints", String), always("path", String), unless_empty("readOnly", Bool)]);

static PERSISTENT_VOLUME_CLAIM: Shape = Shape::new(&[always("claimName", String), unless_empty("readOnly", Bool)]);

static RBD: Shape = Shape::new(&[
    or_null("monitors", STRINGS),
    always("image", String),
    unless_empty("fsType", String),
    unless_empty("pool", String),
    unless_empty("user", String),
    unless_empty("keyring", String),
    if_set("secretRef", Object(&LOCAL_OBJECT_REFERENCE)),
    unless_empty("readOnly", Bool),
]);

static FLEX: Shape = Shape::new(&[
    always("driver", String),
    unless_empty("fsType", String),
    if_set("secretRef", Object(&LOCAL_OBJECT_REFERENCE)),
    unless_empty("readOnly", Bool),
    unless_empty("options", STRING_MAP),
]);

static CINDER: Shape = Shape::new(&[
    always("volumeID", String),
    unless_empty("fsType", String),
    unless_empty("readOnly", Bool),
    if_set("secretRef", Object(&LOCAL_OBJECT_REFERENCE)),
]);

static CEPH_FS: Shape = Shape::new(&[
    or_null("monitors", STRINGS),
    unless_empty("path", String),
    unless_empty("user", String),
    unless_empty("secretFile", String),
    if_set("secretRef", Object(&LOCAL_OBJECT_REFERENCE)),
    unless_empty("readOnly", Bool),
]);

static FLOCKER: Shape = Shape::new(&[unless_empty("datasetName", String), unless_empty("datasetUUID", String)]);

static DOWNWARD_API: Shape =
    Shape::new(&[unless_empty("items", List(&Object(&DOWNWARD_API_VOLUME_FILE))), if_set("defaultMode", Int32)]);

static DOWNWARD_API_VOLUME_FILE: Shape = Shape::new(&[
    always("path", String),
    if_set("fieldRef", Object(&FIELD_REF)),
    if_set("resourceFieldRef", Object(&RESOURCE_FIELD_REF)),
    if_set("mode", Int32),
]);

static FC: Shape = Shape::new(&[
    unless_empty("targetWWNs", STRINGS),
    if_set("lun", Int32),
    unless_empty("fsType", String),
    unless_empty("readOnly", Bool),
    unless_empty("wwids", STRINGS),
]);

static AZURE_FILE: Shape =
    Shape::new(&[always("secretName", String), always("shareName", String), unless_empty("readOnly", Bool)]);

static CONFIG_MAP: Shape = Shape::new(&[
    unless_empty("name", String),
    unless_empty("items", List(&Object(&KEY_TO_PATH))),
    if_set("defaultMode", Int32),
    if_set("optional", Bool),
]);

static VSPHERE_VIRTUAL_DISK: Shape = Shape::new(&[
    always("volumePath", String),
    unless_empty("fsType", String),
    unless_empty("storagePolicyName", String),
    unless_empty("storagePolicyID", String),
]);

static QUOBYTE: Shape = Shape::new(&[
    always("registry", String),
    always("volume", String),
    unless_empty("readOnly", Bool),
    unless_empty("user", String),
    unless_empty("group", String),
    unless_empty("tenant", String),
]);

static AZURE_DISK: Shape = Shape::new(&[
    always("diskName", String),
    always("diskURI", String),
    if_set("cachingMode", String),
    if_set("fsType", String),
    if_set("readOnly", Bool),
    if_set("kind", String),
]);

static PHOTON_PERSISTENT_DISK: Shape = Shape::new(&[always("pdID", String), unless_empty("fsType", String)]);

static PROJECTED: Shape =
    Shape::new(&[or_null("sources", List(&Object(&VOLUME_PROJECTION))), if_set("defaultMode", Int32)]);

static VOLUME_PROJECTION: Shape = Shape::new(&[
    if_set("secret", Object(&OBJECT_PROJECTION)),
    if_set("downwardAPI", Object(&DOWNWARD_API_PROJECTION)),
    if_set("configMap", Object(&OBJECT_PROJECTION)),
    if_set("serviceAccountToken", Object(&SERVICE_ACCOUNT_TOKEN_PROJECTION)),
    if_set("clusterTrustBundle", Object(&CLUSTER_TRUST_BUNDLE_PROJECTION)),
    later("podCertificate", Object(&POD_CERTIFICATE_PROJECTION)),
]);

static OBJECT_PROJECTION: Shape = Shape::new(&[
    unless_empty("name", String),
    unless_empty("items", List(&Object(&KEY_TO_PATH))),
    if_set("optional", Bool),
]);

static DOWNWARD_API_PROJECTION: Shape = Shape::new(&[unless_empty("items", List(&Object(&DOWNWARD_API_VOLUME_FILE)))]);

static SERVICE_ACCOUNT_TOKEN_PROJECTION: Shape =
    Shape::new(&[unless_empty("audience", String), if_set("expirationSeconds", Int64), always("path", String)]);

static CLUSTER_TRUST_BUNDLE_PROJECTION: Shape = Shape::new(&[
    if_set("name", String),
    if_set("signerName", String),
    if_set("labelSelector", Object(&LABEL_SELECTOR)),
    if_set("optional", Bool),
    always("path", String),
]);

static POD_CERTIFICATE_PROJECTION: Shape = Shape::new(&[
    unless_empty("signerName", String),
    unless_empty("keyType", String),
    if_set("maxExpirationSeconds", Int32),
    unless_empty("credentialBundlePath", String),
    unless_empty("keyPath", String),
    unless_empty("certificateChainPath", String),
    unless_empty("userAnnotations", STRING_MAP),
]);

static PORTWORX: Shape =
    Shape::new(&[always("volumeID", String), unless_empty("fsType", String), unless_empty("readOnly", Bool)]);

static SCALE_IO: Shape = Shape::new(&[
    always("gateway", String),
    always("system", String),
    or_null("secretRef", Object(&LOCAL_OBJECT_REFERENCE)),
    unless_empty("sslEnabled", Bool),
    unless_empty("protectionDomain", String),
    unless_empty("storagePool", String),
    unless_empty("storageMode", String),
    unless_empty("volumeName", String),
    unless_empty("fsType", String),
    unless_empty("readOnly", Bool),
]);

static STORAGE_OS: Shape = Shape::new(&[
    unless_empty("volumeName", String),
    unless_empty("volumeNamespace", String),
    unless_empty("fsType", String),
    unless_empty("readOnly", Bool),
    if_set("secretRef", Object(&LOCAL_OBJECT_REFERENCE)),
]);

static CSI: Shape = Shape::new(&[
    always("driver", String),
    if_set("readOnly", Bool),
    if_set("fsType", String),
    unless_empty("volumeAttributes", STRING_MAP),
    if_set("nodePublishSecretRef", Object(&LOCAL_OBJECT_REFERENCE)),
]);

static EPHEMERAL: Shape = Shape::new(&[if_set("volumeClaimTemplate", Object(&PERSISTENT_VOLUME_CLAIM_TEMPLATE))]);

static PERSISTENT_VOLUME_CLAIM_TEMPLATE: Shape =
    Shape::new(&[always("metadata", Object(&OBJECT_META)), always("spec", Object(&PERSISTENT_VOLUME_CLAIM_SPEC))]);

static PERSISTENT_VOLUME_CLAIM_SPEC: Shape = Shape::new(&[
    unless_empty("accessModes", STRINGS),
    if_set("selector", Object(&LABEL_SELECTOR)),
    always("resources", Object(&VOLUME_RESOURCE_REQUIREMENTS)),
    unless_empty("volumeName", String),
    if_set("storageClassName", String),
    if_set("volumeMode", String),
    if_set("dataSource", Object(&TYPED_LOCAL_OBJECT_REFERENCE)),
    if_set("dataSourceRef", Object(&TYPED_OBJECT_REFERENCE)),
    if_set("volumeAttributesClassName", String),
]);

static VOLUME_RESOURCE_REQUIREMENTS: Shape =
    Shape::new(&[unless_empty("limits", QUANTITIES), unless_empty("requests", QUANTITIES)]);

static TYPED_LOCAL_OBJECT_REFERENCE: Shape =
    Shape::new(&[or_null("apiGroup", String), always("kind", String), always("name", String)]);

static TYPED_OBJECT_REFERENCE: Shape = Shape::new(&[
    or_null("apiGroup", String),
    always("kind", String),
    always("name", String),
    if_set("namespace", String),
]);

static IMAGE: Shape = Shape::new(&[unless_empty("reference", String), unless_empty("pullPolicy", String)]);
